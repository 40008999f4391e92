"""One run: the pipeline of `make pipeline` for hours, with all that it takes written down.

start    all programs, a sampler, applications, a consumer
trouble  at a pace, until the time is over; loads, and verdicts by chapters, meanwhile
rest     nobody writes any more; agents ship what is left
load     once, to the end
judge    each line, each chapter of the verdict, each series
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from harness.waiting import wait_until
from tests.cluster_pipeline.asking import now
from tests.cluster_pipeline.choosing import Trouble, troubles_of
from tests.cluster_pipeline.judging import registry, verdict
from tests.cluster_pipeline.loading import WELL, Loads
from tests.cluster_pipeline.nemesis import Nemesis
from tests.cluster_pipeline.registrant import Registrant
from tests.cluster_pipeline.run import ids_of, shown
from tests.cluster_pipeline.shipping import wait_shipped
from tests.cluster_pipeline.site import HOSTS, TOPIC, TOPICS, WINDOW, Keeping, Site
from tests.cluster_pipeline.watching import LeaderWatch, VerdictWatch
from tests.soak.chapters import Chapters
from tests.soak.lines import LogReader, LongApplication, ShippedFiles, StoreReader
from tests.soak.pace import Pace, paced, spared
from tests.soak.sampling import Sampler
from tests.soak.tally import Tally
from tests.soak.watched import watched
from tests.system.crash import Worker

SAMPLES: Final = "samples.csv"
TROUBLES: Final = "troubles.csv"
_SCHEMAS: Final = 60
_ENDS: Final = 60.0
_READS: Final = 120.0


class Accounted(msgspec.Struct, frozen=True):
    """What became of the lines."""

    objections: tuple[str, ...]
    figures: tuple[str, ...]


class StoreWatch(Worker):
    """Reads what loads have landed, soon after they have."""

    def __init__(self, store: StoreReader) -> None:
        super().__init__("store")
        self._store = store

    def work(self) -> None:
        while not self._stop_asked.wait(10.0):
            self._store.read()


def run(
    directory: Path, results: Path, pace: Pace, seed: int, say: Callable[[str], None]
) -> Accounted:
    """Works in `directory`, leaves samples in `results`. Raises what keeps it from being made."""
    tally = Tally()
    shipped: list[ShippedFiles] = []
    application = LongApplication(directory / "logs", HOSTS, seed, tally, lambda: shipped[0])
    folders = {host: application.folder(host) for host in HOSTS}
    since = now() // (WINDOW * 1000) * WINDOW * 1000
    with Site.started(directory, folders, Keeping(pace.keeps)) as site, ExitStack() as ends:
        shipped.append(ShippedFiles(site.agents))
        file = ends.enter_context((results / SAMPLES).open("w", newline=""))
        sampler = Sampler(list(watched(site)), file, pace.samples_every)
        leaders = LeaderWatch(site.cluster.map_address, TOPICS)
        chapters = Chapters(site.asked, since, pace.chapter * 1000, pace.keeps * 1000)
        verdicts = VerdictWatch(lambda: site.asked.report(chapters.begin, now()))
        log = LogReader(
            site.cluster.bootstrap, TOPIC, TOPICS[TOPIC], site.registries[0].port, tally.log
        )
        store = StoreReader(site.loader.warehouse, TOPIC, tally.store)
        stored = StoreWatch(store)
        loads = Loads(site.loader, pace.load_every)
        registrant = Registrant(site.registries, _SCHEMAS)
        workers: list[Worker] = [
            *(sampler, shipped[0], leaders, chapters, verdicts),
            *(log, stored, registrant, loads, application),
        ]
        for worker in workers:
            worker.start()
            ends.callback(worker.end, within=_ENDS)
        ends.callback(site.loader.end)
        wait_until(lambda: len(leaders.brokers) == len(site.cluster.ids), within=60, what="the map")
        nemesis = Nemesis(site, leaders, application, say)
        until = sampler.began + pace.seconds
        nemesis.play(
            _noted(_troubles(seed, site, pace, sampler.began, until), sampler, results),
            # Who has failed raises it below.
            lambda: time.monotonic() >= until or any(each.failure for each in workers),
        )
        say("rest")
        for worker in (sampler, application, registrant):
            worker.finish()
        loads.come_to_an_end()
        wait_shipped(site.agents, application.sizes())
        say("load")
        code, said = site.loader.load()
        wrong = [] if code in WELL else [f"the load ended with {code}: {said}"]
        say("verdict")
        chapters.finish()
        chapters.close_last()
        wait_for(lambda: tally.log.found >= tally.written, _READS)
        time.sleep(2 * WINDOW)  # Whatever is there twice may come now.
        for worker in (leaders, verdicts, log, stored, shipped[0]):
            worker.finish()
        store.read()
        exit_code = site.asked.report_command(chapters.last)
        report = chapters.report
        objections = [
            *wrong,
            *nemesis.wrong,
            *loads.failed(),
            *chapters.late,
            *tally.objections(),
            *log.numbers.objections(),
            *store.objections(),
            *verdict(report, exit_code, chapters.cells, tally.written),
            *registry(registrant.answered, [ids_of(each, registrant) for each in site.registries]),
            *(f"meanwhile: {each}" for each in dict.fromkeys(verdicts.faults)),
        ]
        figures = [
            shown(nemesis.done, nemesis.writers_frozen, pace.seconds),
            f"leaders changed {leaders.changes} times; partitions had none"
            f" {sum(leaders.without.values())} times",
            f"lines written {tally.written:,}, in files rotated {application.rotations} times;"
            f" consumed {tally.log.found:,}, rows {tally.store.found:,}",
            f"loads {len(loads.codes) + 1}; verdicts asked for {verdicts.asked}; chapters"
            f" {len(chapters.reports)}, all together {report.get('state')} ({exit_code})",
        ]
        return Accounted(tuple(objections), tuple(figures))


def wait_for(met: Callable[[], bool], within: float) -> None:
    """Or not: what is missing then is objected to."""
    until = time.monotonic() + within
    while not met() and time.monotonic() < until:
        time.sleep(0.2)


def _troubles(seed: int, site: Site, pace: Pace, began: float, until: float) -> Iterator[Trouble]:
    """The last broker is the one that is spared."""
    at_a_pace = paced(troubles_of(seed, site.cluster.ids), pace.between, until)
    return spared(at_a_pace, site.cluster.ids[-1], began + pace.seconds / 2)


def _noted(troubles: Iterator[Trouble], sampler: Sampler, results: Path) -> Iterator[Trouble]:
    with (results / TROUBLES).open("w") as file:
        print("seconds,trouble", file=file)
        for each in troubles:
            print(f'{time.monotonic() - sampler.began:.1f},"{each}"', file=file, flush=True)
            yield each

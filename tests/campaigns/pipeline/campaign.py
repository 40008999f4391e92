"""Does every line arrive, whoever fails, and is one that does not arrive named?

start    all programs; applications begin to write, somebody to register schemas
trouble  they are killed, stopped, frozen and cut off; now and then there is a load meanwhile
rest     nobody writes any more; agents ship what is left, mirrors copy it
load     once, to the end
judge    log, store, registries and verdict, against what was written
lost     where there are mirrors, one line is taken away between the clusters, and must be named
"""

import json
import os
import shutil
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from bench.figures import machine
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from tests.campaigns.command import Campaign
from tests.campaigns.leaders import LeaderWatch
from tests.campaigns.loading import WELL, Loads
from tests.campaigns.outcomes import Objection, Outcome, Say, outcome_of
from tests.campaigns.pipeline.application import FILES, Application, ShippedFiles
from tests.campaigns.pipeline.asking import Chapters, VerdictWatch, now, registry, verdict
from tests.campaigns.pipeline.flatness import Pace, judged, objections, table
from tests.campaigns.pipeline.lines import LogReader, StoreReader, Tally
from tests.campaigns.pipeline.nemesis import Nemesis
from tests.campaigns.pipeline.registrant import Registrant, schema_of, subject_of
from tests.campaigns.pipeline.sabotage import sabotage
from tests.campaigns.pipeline.sampling import Sampler, read, watched
from tests.campaigns.pipeline.script import ACTIONS, Script, script_of
from tests.campaigns.pipeline.shapes import SHAPES, Part
from tests.campaigns.pipeline.site import WINDOW, Keeping, Site
from tests.system.crash import Worker

SAMPLES: Final = "samples.csv"
RUN: Final = "run.json"
VERDICT: Final = "verdict.md"
_SCHEMAS: Final = 60
_ENDS: Final = 60.0
_HOUR: Final = 3_600_000


class PipelineCampaign(Campaign):
    name = "pipeline"
    about = __doc__
    runs = 1
    scripts = Script
    actions = ACTIONS
    judges_again = False

    def options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--site", choices=SHAPES, default="cluster", help="mirrored: two datacenters beside it")
        add("--minutes", type=float, default=10, help="of trouble")
        add("--load-every", type=int, default=120, help="seconds between loads meanwhile; 0: none")

    def script_of(self, seed: int, options: Namespace) -> Script:
        seconds = int(options.minutes * 60)
        return script_of(seed, options.site, seconds=seconds, load_every=options.load_every)

    def run(self, script: Script, directory: Path, say: Say, *, broken: str = "") -> Outcome:
        assert not broken
        found = _Run(script, directory / "site", say)
        outcome = outcome_of(script, directory, found.play, lambda: found.counts)
        return replace(outcome, figures=found.figures)


class SoakCampaign(Campaign):
    """Only what it has found is left in the end, and that in any case."""

    name = "soak"
    about = """Does anything grow? The pipeline on a cluster for hours, under faults at a pace, with
    the memory, descriptors, threads and files of each process and ZooKeeper's nodes watched."""
    runs = 1
    scripts = Script
    actions = ACTIONS

    def options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--hours", type=float, default=2, help="0.1 will do to try it")
        parser.set_defaults(keep=True)

    def script_of(self, seed: int, options: Namespace) -> Script:
        pace = Pace(options.hours * 3600)
        return script_of(
            seed,
            "cluster",
            seconds=int(pace.seconds),
            load_every=int(pace.load_every),
            between=pace.between,
        )

    def run(self, script: Script, directory: Path, say: Say, *, broken: str = "") -> Outcome:
        assert not broken
        counts: dict[str, int] = {}

        def play() -> Sequence[Objection]:
            began = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
            with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as made:
                found = _Run(script, Path(made), say, directory)
                try:
                    wrong = found.play()
                finally:
                    _keep_outputs(Path(made), directory / "programs")
            counts.update(found.counts)
            about = {
                "seconds": script.seconds,
                "began": began,
                "commit": machine.commit(),
                "machine": machine.description(directory),
                "figures": found.figures,
                "objections": [(each.rule, each.words) for each in wrong],
                "load at end": f"{os.getloadavg()[0]:.2f}",
            }
            (directory / RUN).write_text(json.dumps(about, indent=1) + "\n")
            return self.judge_again(directory)

        outcome = outcome_of(script, directory, play, lambda: counts)
        kept = directory / VERDICT
        figures = kept.read_text().splitlines() if kept.exists() else ()
        return replace(outcome, figures=figures)

    def judge_again(self, directory: Path) -> Sequence[Objection]:
        """The verdict is written anew, from the samples."""
        about = json.loads((directory / RUN).read_text())
        found = judged(read(directory / SAMPLES), Pace(about["seconds"]).span)
        wrong = [Objection(*each) for each in about["objections"]]
        wrong += [Objection("growth", each) for each in objections(found)]
        title = f"# {about['seconds']} s of the pipeline under faults, from {about['began']}"
        said = [f"- {each}" for each in (*about["figures"], *wrong)]
        (directory / VERDICT).write_text("\n".join([title, "", *said, "", table(found), ""]))
        return wrong


CAMPAIGNS: Final = {"pipeline": PipelineCampaign(), "soak": SoakCampaign()}


def _keep_outputs(directory: Path, to: Path) -> None:
    """What programs have said, for whoever looks for the reason of something."""
    to.mkdir(exist_ok=True)
    for path in directory.rglob("*.log"):
        if path.stat().st_size and "data" not in path.parts and "logs" not in path.parts:
            shutil.copyfile(path, to / "-".join(path.relative_to(directory).parts))


class _Destination:
    """The lines of one origin, where the loader reads them: who waits for each of them there."""

    def __init__(self, part: Part, tally: Tally, site: Site, since: int, pace: Pace | None) -> None:
        self.part, self.tally, self.asked = part, tally, site.at_end(part)
        last = site.last
        topic = part.copy(site.shape.last)
        port = last.registries[0].port
        bootstrap = last.cluster.bootstrap
        self.log = LogReader(bootstrap, topic, part.partitions, port, tally.log)
        self.store = StoreReader(site.loader.warehouse, topic, tally.store)
        length, kept = (pace.chapter * 1000, pace.keeps * 1000) if pace else (0, 0)
        self.chapters = Chapters(self.asked, since, length, kept, site.shape.tiers)
        self.verdicts = [VerdictWatch(lambda: self.asked.report(self.chapters.begin, now()))]
        if part is not site.shape.last:
            origin = site.at_origin(part)
            self.verdicts.append(VerdictWatch(lambda: origin.report(since, now())))

    @property
    def workers(self) -> list[Worker]:
        return [self.log, self.store, self.chapters, *self.verdicts]

    def close(self) -> None:
        """Nobody writes any more, and all is loaded."""
        self.chapters.finish()
        self.chapters.close_last()
        with suppress(TimeoutError):  # what is missing then is objected to
            wait_until(lambda: self.tally.log.found >= self.tally.written, what="all is consumed")

    def objections(self, tiers: Sequence[str]) -> Iterator[Objection]:
        exit_code = self.asked.report_command(self.chapters.last)
        report, written = self.chapters.report, self.tally.written
        meanwhile = dict.fromkeys(fault for each in self.verdicts for fault in each.faults)
        said = {
            "lines": [*self.tally.objections(), *self.log.numbers.objections()],
            "store": self.store.objections(),
            "verdict": [
                *self.chapters.late,
                *verdict(report, exit_code, self.chapters.cells, written, tiers),
                *(f"meanwhile: {each}" for each in meanwhile),
            ],
        }
        for rule, words in said.items():
            yield from (Objection(rule, f"{self.asked.topic}: {each}") for each in words)

    def figures(self) -> str:
        report = self.chapters.report
        tiers: dict[str, int] = {}
        for each in report.get("tiers", []):
            tiers[each["tier"]] = tiers.get(each["tier"], 0) + each["events"]
        counted = ", ".join(f"{name} {count:,}" for name, count in tiers.items())
        state = f"{report.get('state')} in {len(self.chapters.reports)} chapters"
        return f"{self.asked.topic}: {self.tally.written:,} lines written; {counted}; {state}"


class _Run:
    def __init__(
        self, script: Script, directory: Path, say: Say, samples: Path | None = None
    ) -> None:
        """`samples`: of a soak, the folder where these go."""
        self._script, self._directory, self._say, self._samples = script, directory, say, samples
        self.counts: dict[str, int] = {}
        self.figures: list[str] = []
        self._pace = Pace(script.seconds) if samples else None

    def play(self) -> list[Objection]:
        script, pace, shape = self._script, self._pace, SHAPES[self._script.site]
        tallies = {each.name: Tally() for each in shape.origins}
        by_host = {host: tallies[each.name] for each in shape.origins for host in each.hosts}
        agents: list[Any] = []
        shipped = ShippedFiles(lambda: agents)
        application = Application(
            self._directory / "logs",
            by_host,
            script.seed,
            shipped.to_the_end if pace else lambda _: False,
        )
        folders = {host: application.folder(host) for host in by_host}
        # The whole hour, but of a soak, whose first windows are soon forgotten.
        since = now() // _HOUR * _HOUR if pace is None else now() // (WINDOW * 1000) * WINDOW * 1000
        keeping = Keeping(pace.keeps) if pace else None
        with Site.started(self._directory, shape, folders, keeping) as site, ExitStack() as ends:
            agents += site.agents.values()
            found = [
                _Destination(each, tallies[each.name], site, since, pace) for each in shape.origins
            ]
            leaders = LeaderWatch(site.last.cluster.map_address, site.last.topics)
            loads = Loads(site.loader, script.load_every)
            several = next((each for each in site.places.values() if each.registries[1:]), None)
            registrant = Registrant(several.registries if several else (), _SCHEMAS)
            samplers = self._samplers(site, ends)
            workers: list[Worker] = [
                *(*samplers, *(each for one in found for each in one.workers)),
                *(shipped, leaders, registrant, loads, application),
            ]
            for worker in workers:
                worker.start()
                # Whatever fails: what it works on is about to go.
                ends.callback(worker.end, within=_ENDS)
            ends.callback(site.loader.end)
            files = len(by_host) * len(FILES)
            wait_until(
                lambda: len(application.sizes()) == files and site.follows(application.sizes()),
                what="agents follow all files",
            )
            nemesis = Nemesis(site, application, script.seed, self._say)
            began = time.monotonic()
            nemesis.until = began + script.seconds if script.seconds else float("inf")
            nemesis.play_until(
                script.actions,
                # Who has failed raises it below.
                lambda: time.monotonic() >= nemesis.until or any(each.failure for each in workers),
            )
            lasted = time.monotonic() - began
            self._say("rest")
            for worker in (*samplers, application, registrant):
                worker.finish()
            loads.come_to_an_end()
            site.wait_shipped(application.sizes())
            mirrored = [each for each in shape.origins if each is not shape.last]
            for each in mirrored:
                site.wait_copied(each)
            self._say("load")
            code, said = site.loader.load()
            wrong = [] if code in WELL else [f"the load ended with {code}: {said}"]
            self._say("verdict")
            for one in found:
                one.close()
            time.sleep(2 * WINDOW)  # Whatever is there twice may come now.
            for worker in (*(each for one in found for each in one.workers), leaders, shipped):
                worker.finish()
            for one in found:
                one.store.read()
            wrong += [*nemesis.wrong, *loads.failed()]
            wrong += [words for each in mirrored for words in site.differences(each)]
            wrong += _topics_judged(site) if mirrored else []
            objected = [Objection("trouble", each) for each in wrong]
            objected += [each for one in found for each in one.objections(shape.tiers)]
            if several:
                ids = [_ids_of(each, registrant) for each in several.registries]
                objected += [Objection("registry", x) for x in registry(registrant.answered, ids)]
            blows = ", ".join(f"{what} {count}" for what, count in sorted(nemesis.blows.items()))
            self.figures += [
                f"{lasted:.0f} s of trouble: {blows}; writing registries frozen"
                f" {nemesis.writers_frozen}; leaders changed {leaders.changes} times",
                f"files rotated {application.rotations} times; exit codes of loads meanwhile:"
                f" {', '.join(map(str, loads.codes)) or 'none'}; schemas registered"
                f" {len(registrant.answered)}",
                *(one.figures() for one in found),
            ]
            self.counts = {
                "blows": nemesis.blows.total(),
                "lines written": sum(one.tally.written for one in found),
                "rows": sum(one.tally.store.found for one in found),
                "changes of leaders": leaders.changes,
                "registrations": len(registrant.answered),
                "writers frozen": nemesis.writers_frozen,
                "verdicts asked for": sum(each.asked for one in found for each in one.verdicts),
            }
            if mirrored:
                self._say("a line is lost")
                more, named = sabotage(site, application, mirrored[0], since)
                objected += [Objection("lost line", each) for each in more]
                self.figures.append(f"the line that was taken away: {named}")
                self.counts["lost lines named"] = int(not more)
            return objected

    def _samplers(self, site: Site, ends: ExitStack) -> list[Worker]:
        if self._pace is None or self._samples is None:
            return []
        file = ends.enter_context((self._samples / SAMPLES).open("w", newline=""))
        return [Sampler(list(watched(site)), file, self._pace.samples_every)]


def _topics_judged(site: Site) -> Iterator[str]:
    """Copies of schemas are no topics of anybody's lines."""
    answer = site.audit.ask(f"/api/v1/topics?cluster={site.last.name}")
    names = {each["topic"] for each in json.loads(answer.body)["items"]}
    if names != {each.copy(site.shape.last) for each in site.shape.origins}:
        yield f"the audit judges {sorted(names)} of the last cluster"


def _ids_of(asked: RegistryProcess, registrant: Registrant) -> dict[int, int]:
    """By which id it knows each schema that was registered."""
    found = {}
    for number, _ in registrant.answered:
        schema = json.dumps(schema_of(number))
        answer = asked.ask("POST", f"/subjects/{subject_of(number)}", {"schema": schema})
        if answer.status == 200:
            found[number] = answer.body["id"]
    return found

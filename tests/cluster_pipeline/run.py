"""One run: the whole pipeline, an application that writes, troubles, rest, a load, and the verdict.

start    all programs; the application begins to write, somebody to register schemas
trouble  brokers go and come back, one after the other; now and then there is a load meanwhile
rest     nobody writes any more; agents ship what is left, and say so
load     once, to the end
judge    what is in the log, in the store, in the registries and in the verdict
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from harness.registry_process import RegistryProcess
from harness.waiting import wait_until
from tests.cluster_pipeline.application import Application
from tests.cluster_pipeline.asking import now
from tests.cluster_pipeline.choosing import Beside, Trouble, Verb
from tests.cluster_pipeline.judging import Evidence, judge
from tests.cluster_pipeline.loading import WELL, Loads
from tests.cluster_pipeline.nemesis import Nemesis
from tests.cluster_pipeline.registrant import Registrant, schema_of, subject_of
from tests.cluster_pipeline.shipping import wait_shipped
from tests.cluster_pipeline.site import HOSTS, TOPIC, TOPICS, Site
from tests.cluster_pipeline.watching import AcknowledgementWatch, LeaderWatch, VerdictWatch
from tests.system.crash import Worker
from tests.witness.reading import Record, Schemas, messages, record_of, rows

_HOUR: Final = 3_600_000
_READS: Final = 120.0
_ENDS: Final = 60.0


class Outcome(msgspec.Struct, frozen=True):
    objections: tuple[str, ...]
    troubles: tuple[Trouble, ...]
    seconds: float  # of troubles
    lines: int
    rotations: int
    leader_changes: int
    leaderless: int  # how often a partition had no leader
    longest: Mapping[str, float]  # without an acknowledged batch, by agent
    longest_of_all: float
    retries: int  # of batches
    registrations: int
    writers_frozen: int
    loads: tuple[int, ...]  # exit codes of those meanwhile
    verdicts: int  # that were asked for meanwhile
    tiers: Mapping[str, int]
    landed: int
    state: str
    exit_code: int

    def figures(self) -> list[str]:
        """In words, for people."""
        by_agent = ", ".join(f"{name} {waited:.1f} s" for name, waited in self.longest.items())
        tiers = ", ".join(f"{name} {count:,}" for name, count in self.tiers.items())
        loads = ", ".join(map(str, self.loads)) or "none"
        return [
            shown(self.troubles, self.writers_frozen, self.seconds),
            f"leaders changed {self.leader_changes} times; partitions had none"
            f" {self.leaderless} times",
            f"lines written {self.lines:,}, in files rotated {self.rotations} times; rows"
            f" {self.landed:,}; {tiers}",
            f"longest time without an acknowledged batch: {self.longest_of_all:.1f} s;"
            f" by agent: {by_agent}; batches sent again {self.retries}",
            f"schemas registered {self.registrations}; exit codes of loads meanwhile: {loads};"
            f" verdicts asked for meanwhile {self.verdicts}",
            f"verdict: {self.state} ({self.exit_code})",
        ]


def shown(troubles: Sequence[Trouble], writers_frozen: int, seconds: float) -> str:
    """What happened, in words."""
    of = {verb: sum(each.verb is verb for each in troubles) for verb in Verb}
    agents = sum(each.beside is Beside.AGENT for each in troubles)
    return (
        f"{seconds:.0f} s of trouble: brokers killed {of[Verb.KILL]}, stopped {of[Verb.STOP]},"
        f" frozen {of[Verb.FREEZE]}; beside that agents killed {agents}, writing registries frozen"
        f" {writers_frozen}"
    )


def run(
    directory: Path,
    troubles: Iterable[Trouble],
    *,
    seed: int = 1,
    seconds: float = 0,
    load_every: float = 0,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Begins no trouble after `seconds`, if that is not 0. Raises what keeps it from being made."""
    application = Application(directory / "logs", HOSTS, seed)
    folders = {host: application.folder(host) for host in HOSTS}
    since = now() // _HOUR * _HOUR
    with Site.started(directory, folders) as site, ExitStack() as ends:
        leaders = LeaderWatch(site.cluster.map_address, TOPICS)
        acknowledged = AcknowledgementWatch(site.agents, TOPIC)
        verdicts = VerdictWatch(lambda: site.asked.report(since, now()))
        registrant = Registrant(site.registries)
        loads = Loads(site.loader, load_every)
        watches: list[Worker] = [leaders, acknowledged, verdicts]
        for worker in (*watches, registrant, loads, application):
            worker.start()
            # Whatever fails: what it works on is about to go.
            ends.callback(worker.end, within=_ENDS)
        ends.callback(site.loader.end)
        wait_until(lambda: len(leaders.brokers) == len(site.cluster.ids), within=60, what="the map")
        nemesis = Nemesis(site, leaders, application, say)
        began = time.monotonic()
        nemesis.play(troubles, lambda: bool(seconds) and time.monotonic() - began > seconds)
        lasted = time.monotonic() - began
        say("rest")
        for worker in (application, registrant, acknowledged):
            worker.finish()
        loads.come_to_an_end()
        wait_shipped(site.agents, application.sizes())
        say("load")
        code, said = site.loader.load()
        if code not in WELL:
            nemesis.wrong.append(f"the load ended with {code}: {said}")
        say("verdict")
        report = site.asked.settled(since)
        for worker in (leaders, verdicts):
            worker.finish()
        evidence = replace(
            _evidence(site, application, registrant, report, since),
            troubles=[*nemesis.wrong, *loads.failed()],
            faults_meanwhile=verdicts.faults,
        )
        return Outcome(
            tuple(judge(evidence)),
            tuple(nemesis.done),
            lasted,
            len(evidence.written),
            application.rotations,
            leaders.changes,
            sum(leaders.without.values()),
            acknowledged.longest,
            acknowledged.longest_of_all,
            acknowledged.retries,
            len(registrant.answered),
            nemesis.writers_frozen,
            tuple(loads.codes),
            verdicts.asked,
            {each["tier"]: each["events"] for each in report.get("tiers", [])},
            len(evidence.landed),
            report.get("state", "nothing"),
            evidence.exit_code,
        )


def _evidence(
    site: Site,
    application: Application,
    registrant: Registrant,
    report: Mapping[str, Any],
    since: int,
) -> Evidence:
    records = _records(site)
    landed = [each.text for each in rows(site.loader.warehouse, TOPIC)]
    return Evidence(
        written=[line for lines in application.lines.values() for line in lines],
        logged=[each.text for each in records],
        sources=[(each.source, each.seq) for each in records],
        landed=landed,
        exit_code=site.asked.report_command(since),
        report=report,
        cells=site.asked.cells(since, now()),
        answered=registrant.answered,
        registered=[ids_of(each, registrant) for each in site.registries],
    )


def _records(site: Site) -> list[Record]:
    schemas = Schemas(site.registries[0].port)
    return [
        record_of(message, schemas)
        for partition in range(TOPICS[TOPIC])
        for message in messages(site.cluster.bootstrap, TOPIC, partition, within=_READS)
    ]


def ids_of(registry: RegistryProcess, registrant: Registrant) -> dict[int, int]:
    """By which id it knows each schema that was registered."""
    found = {}
    for number, _ in registrant.answered:
        answer = registry.ask(
            "POST", f"/subjects/{subject_of(number)}", {"schema": json.dumps(schema_of(number))}
        )
        if answer.status == 200:
            found[number] = answer.body["id"]
    return found

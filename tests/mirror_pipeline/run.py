"""One run: two datacenters and an offline cluster, applications that write, troubles, rest, a load,
and the verdict; and then one line that is lost on the way.

start     all programs; the applications begin to write
trouble   brokers, mirrors, agents, loads and the audit are killed, stopped, frozen and cut off
rest      nobody writes any more; agents ship what is left, mirrors copy it
load      once, to the end
judge     both logs, the store and the verdict, against what was written
sabotage  one line is taken away between the clusters, and must be named
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.cluster_pipeline.application import Application
from tests.cluster_pipeline.asking import now
from tests.cluster_pipeline.judging import Evidence, judge
from tests.cluster_pipeline.loading import WELL, Loads
from tests.cluster_pipeline.shipping import wait_shipped
from tests.cluster_pipeline.watching import VerdictWatch
from tests.mirror_pipeline.choosing import Trouble
from tests.mirror_pipeline.nemesis import Nemesis
from tests.mirror_pipeline.sabotage import sabotage
from tests.mirror_pipeline.topology import DATACENTERS, OFFLINE, Datacenter, Topology, lines_of
from tests.system.crash import Worker
from tests.witness.reading import Record, Schemas, messages, record_of, rows

TIERS: Final = ("agent", "origin", "broker", "hdfs")
_HOUR: Final = 3_600_000
_READS: Final = 120.0
_ENDS: Final = 60.0
Say = Callable[[str], None]


class OfDatacenter(msgspec.Struct, frozen=True):
    """What became of the lines of one."""

    name: str
    written: Mapping[str, int]  # lines, by host
    landed: Mapping[str, int]  # rows, by host
    tiers: Mapping[str, int]
    state: str
    exit_code: int


class Outcome(msgspec.Struct, frozen=True):
    objections: tuple[str, ...]
    troubles: tuple[Trouble, ...]
    blows: Mapping[str, int]
    seconds: float  # of troubles
    rotations: int
    loads: tuple[int, ...]  # exit codes of those meanwhile
    verdicts: int  # that were asked for meanwhile
    datacenters: tuple[OfDatacenter, ...]
    named: str  # the line that was taken away, in the verdict's words

    def figures(self) -> list[str]:
        """In words, for people."""
        blows = ", ".join(f"{what} {count}" for what, count in sorted(self.blows.items()))
        loads = ", ".join(map(str, self.loads)) or "none"
        found = [
            f"{self.seconds:.0f} s of trouble, {len(self.troubles)} times: {blows}",
            f"files rotated {self.rotations} times; exit codes of loads meanwhile: {loads};"
            f" verdicts asked for meanwhile {self.verdicts}",
        ]
        for each in self.datacenters:
            hosts = ", ".join(
                f"{host} wrote {count:,}, landed {each.landed.get(host, 0):,}"
                for host, count in each.written.items()
            )
            tiers = ", ".join(f"{name} {count:,}" for name, count in each.tiers.items())
            found.append(f"{each.name}: {hosts}; {tiers}; {each.state} ({each.exit_code})")
        return [*found, f"the line that was taken away: {self.named}"] if self.named else found


def run(
    directory: Path,
    troubles: Iterable[Trouble],
    *,
    seed: int = 1,
    seconds: float = 0,
    load_every: float = 0,
    say: Say = lambda _: None,
) -> Outcome:
    """Begins no trouble after `seconds`, if that is not 0. Raises what keeps it from being made."""
    hosts = [host for each in DATACENTERS for host in each.hosts]
    application = Application(directory / "logs", hosts, seed)
    folders = {host: application.folder(host) for host in hosts}
    since = now() // _HOUR * _HOUR
    with Topology.started(directory, folders) as topology, ExitStack() as ends:
        loads = Loads(topology.loader, load_every)
        watches = _watches(topology, since)
        workers: list[Worker] = [*watches, loads, application]
        for worker in workers:
            worker.start()
            # Whatever fails: what it works on is about to go.
            ends.callback(worker.end, within=_ENDS)
        ends.callback(topology.loader.end)
        nemesis = Nemesis(topology, application, say)
        began = time.monotonic()
        nemesis.play(troubles, lambda: bool(seconds) and time.monotonic() - began > seconds)
        lasted = time.monotonic() - began
        say("rest")
        application.finish()
        loads.come_to_an_end()
        wait_shipped(tuple(topology.agents.values()), application.sizes())
        for each in DATACENTERS:
            topology.wait_copied(each)
        say("load")
        code, said = topology.loader.load()
        wrong = [*nemesis.wrong, *loads.failed()]
        wrong += [] if code in WELL else [f"the load ended with {code}: {said}"]
        say("verdict")
        reports = {each.name: topology.of_copy(each).settled(since) for each in DATACENTERS}
        for watch in watches:
            watch.finish()
            wrong += [f"meanwhile: {each}" for each in dict.fromkeys(watch.faults)]
        wrong += _judged(topology)
        found = []
        for each in DATACENTERS:
            wrong += topology.differences(each)
            evidence = _evidence(topology, application, each, reports[each.name], since)
            wrong += [f"{each.copy}: {objection}" for objection in judge(evidence)]
            found.append(_became(each, application, evidence))
        say("sabotage")
        more, named = sabotage(topology, application, DATACENTERS[0], since)
        return Outcome(
            (*wrong, *(f"a line that is lost: {each}" for each in more)),
            tuple(nemesis.done),
            nemesis.blows,
            lasted,
            application.rotations,
            tuple(loads.codes),
            sum(each.asked for each in watches),
            tuple(found),
            named,
        )


def _watches(topology: Topology, since: int) -> list[VerdictWatch]:
    """On every origin, and every copy."""
    asked = [
        each for one in DATACENTERS for each in (topology.at_origin(one), topology.of_copy(one))
    ]
    return [VerdictWatch(lambda of=each: of.report(since, now())) for each in asked]


def _judged(topology: Topology) -> Iterator[str]:
    """Copies of schemas are no topics of anybody's lines."""
    answer = topology.audit.ask(f"/api/v1/topics?cluster={OFFLINE}")
    names = {each["topic"] for each in json.loads(answer.body)["items"]}
    if names != {each.copy for each in DATACENTERS}:
        yield f"the audit judges {sorted(names)} of the offline cluster"


def _evidence(
    topology: Topology,
    application: Application,
    datacenter: Datacenter,
    report: Mapping[str, Any],
    since: int,
) -> Evidence:
    records = _records(topology, datacenter)
    asked = topology.of_copy(datacenter)
    return Evidence(
        written=lines_of(datacenter, application.lines),
        logged=[each.text for each in records],
        sources=[(each.source, each.seq) for each in records],
        landed=[each.text for each in rows(topology.loader.warehouse, datacenter.copy)],
        exit_code=asked.report_command(since),
        report=report,
        cells=asked.cells(since, now()),
        tiers=TIERS,
    )


def _records(topology: Topology, datacenter: Datacenter) -> list[Record]:
    """Of the copy, by the schemas that the registry beside it serves."""
    schemas = Schemas(topology.offline.registry.port)
    bootstrap = topology.offline.cluster.bootstrap
    return [
        record_of(message, schemas)
        for partition in range(datacenter.partitions)
        for message in messages(bootstrap, datacenter.copy, partition, within=_READS)
    ]


def _became(datacenter: Datacenter, application: Application, evidence: Evidence) -> OfDatacenter:
    return OfDatacenter(
        datacenter.name,
        {host: len(application.lines[host]) for host in datacenter.hosts},
        _by_host(evidence.landed),
        {each["tier"]: each["events"] for each in evidence.report.get("tiers", [])},
        evidence.report.get("state", "nothing"),
        evidence.exit_code,
    )


def _by_host(lines: Sequence[str]) -> Mapping[str, int]:
    """They begin with it."""
    return Counter(line.partition(" ")[0] for line in lines)

"""Does a cluster keep what it promises, whatever is killed, frozen, cut off or spoilt?

A run leaves

    brokers/…          the brokers' configuration, output and data, ZooKeeper's
    history.jsonl.gz   what happened
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException

from harness.penstock.clusters.broker_cluster import BrokerCluster
from harness.processes.waiting import wait_until
from tests.campaigns.bugs import bugs_of
from tests.campaigns.cluster.broken import FLAWS
from tests.campaigns.cluster.broken import __name__ as broken_program
from tests.campaigns.cluster.clients import (
    PATIENCE,
    HeadstrongWriter,
    LibrdkafkaWriter,
    Reader,
    read_whole,
)
from tests.campaigns.cluster.events import Acknowledged, Event, Mapped, Read, Sent, Stands
from tests.campaigns.cluster.judging import ALL, Case, judge
from tests.campaigns.cluster.nemesis import Nemesis
from tests.campaigns.cluster.script import ACTIONS, KINDS, SCENES, Script, script_of
from tests.campaigns.command import Campaign
from tests.campaigns.flaws import BROKEN
from tests.campaigns.history import Done, History, Trouble
from tests.campaigns.leaders import LeaderWatch, Place
from tests.campaigns.logs import read_replicas
from tests.campaigns.outcomes import SCRIPT, Objection, Outcome, Say, outcome_of
from tests.system.crash import Worker, finish_all
from tests.system.faults import Faults, compile_faults

HISTORY: Final = "history.jsonl.gz"
BROKERS: Final = "brokers"
PENSTOCK: Final = "penstock"
TOPIC: Final = "history"
PARTITIONS: Final = 4
LAG_SECONDS: Final = 6.0
# Small segments, so that faults also meet the moment of a new one.
CONFIGS: Final = {"segment.bytes": str(256 * 1024), "index.interval.bytes": "512"}


class ClusterCampaign(Campaign):
    name = "cluster"
    about = __doc__
    scripts = Script
    actions = ACTIONS
    flaws = FLAWS

    def options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--brokers", type=int, default=3)
        add("--factor", type=int, default=3, help="replicas of each partition")
        add("--zookeepers", type=int, default=1)
        add("--scenes", type=int, default=SCENES, help="of a script")
        add("--only", action="append", choices=KINDS, default=[], help="faults that may happen")

    def script_of(self, seed: int, options: Namespace) -> Script:
        return script_of(
            seed,
            brokers=options.brokers,
            factor=options.factor,
            kinds=options.only,
            zookeepers=options.zookeepers,
            scenes=options.scenes,
        )

    def run(self, script: Script, directory: Path, say: Say, *, broken: str = "") -> Outcome:
        history = History()

        def play() -> Sequence[Objection]:
            try:
                _Run(script, directory, history, say, broken).play()
            finally:
                history.save(directory / HISTORY)
            return self.judge_again(directory)

        return outcome_of(
            script,
            directory,
            play,
            lambda: {
                "records sent": len(history.of(Sent)),
                "acknowledged": len(history.of(Acknowledged)),
                "read": len(history.of(Read)),
            },
        )

    def judge_again(self, directory: Path) -> Sequence[Objection]:
        history = History.load(directory / HISTORY, Event)
        consumed: dict[int, dict[int, str]] = {each: {} for each in range(PARTITIONS)}
        for each in history.of(Stands):
            consumed[each.partition][each.offset] = each.content
        replicas = {
            each: read_replicas(directory / BROKERS, TOPIC, each, opened=True)
            for each in range(PARTITIONS)
        }
        script = self.parse((directory / SCRIPT).read_text())
        return judge(Case(history, consumed, replicas, script.in_sync))


CAMPAIGNS: Final = {"cluster": ClusterCampaign()}


class _Run:
    """A cluster, those who write and read, what is done to it, and rest."""

    def __init__(
        self, script: Script, directory: Path, history: History, say: Say, broken: str
    ) -> None:
        self._script, self._history, self._say = script, history, say
        brokers = directory / BROKERS
        brokers.mkdir()
        self._faults = faults_of(directory, brokers, map(str, range(1, script.brokers + 1)))
        settings: dict[str, object] = {"zookeeper_session_seconds": script.session}
        if script.factor > 1:
            settings["replication"] = {"lag_seconds": LAG_SECONDS}
        named = {BROKEN: broken} if broken else {}
        self._cluster = BrokerCluster(
            brokers,
            brokers=script.brokers,
            zookeepers=script.zookeepers,
            settings=settings,
            environments={
                int(each): {**faults.environment, **named} for each, faults in self._faults.items()
            },
            program=broken_program if broken else PENSTOCK,
        )

    def play(self) -> None:
        with self._cluster as cluster:
            configs = {**CONFIGS, "min.insync.replicas": str(self._script.in_sync)}
            cluster.create_topic(TOPIC, replicas=self._script.replicas(PARTITIONS), configs=configs)
            self._settle()
            topics = {TOPIC: PARTITIONS}
            watcher = LeaderWatch(cluster.map_address, topics, self._note_state)
            writers, readers = self._writers(), self._readers()
            nemesis = Nemesis(
                cluster,
                self._history,
                self._script.seed,
                self._say,
                faults={int(each): faults for each, faults in self._faults.items()},
                watcher=watcher,
                topics=topics,
            )
            for worker in (watcher, *readers, *writers):
                worker.start()
            try:
                nemesis.play(self._script.actions)
                nemesis.bring_back()
                self._settle()
                finish_all(writers)
                self._come_to_rest(readers)
            finally:
                finish_all([*readers, watcher, *writers])
            for what in stopped(cluster):
                self._trouble(what)
        for what in bugs_of(self._cluster):
            self._trouble(what)

    def _trouble(self, what: str, rule: str = "trouble") -> None:
        self._history.note(Trouble(f"{rule}: {what}"))

    def _note_state(self, place: Place, state: Mapping[str, Any], version: int) -> None:
        leader, epoch, in_sync = state["leader"], state["leader_epoch"], tuple(state["isr"])
        self._history.note(Mapped(place[1], leader, epoch, in_sync, version))

    def _writers(self) -> list[Worker]:
        """Different ones to each partition; nobody writes to the last."""
        cluster, history = self._cluster, self._history
        addresses = {each: cluster.to_clients[each].address for each in cluster.ids}

        def led(kind: str, partition: int, acks: int, *, idempotent: bool = False) -> Worker:
            return LibrdkafkaWriter(
                f"{kind}/{partition}",
                *(history, cluster.bootstrap, TOPIC, partition),
                acks=acks,
                idempotent=idempotent,
            )

        def headstrong(kind: str, partition: int, acks: int, *brokers: int) -> Worker:
            name, told = f"{kind}/{partition}", {each: addresses[each] for each in brokers}
            return HeadstrongWriter(name, history, told, TOPIC, partition, acks)

        everywhere = cluster.ids
        return [
            *(led("idempotent", each, ALL, idempotent=True) for each in (0, 1, 2)),
            *(headstrong(f"to-{each}", 0, ALL, each) for each in everywhere),
            led("all", 1, ALL),
            headstrong("roving-all", 1, ALL, *everywhere),
            led("all", 2, ALL),
            led("one", 2, 1),
            headstrong("roving-one", 2, 1, *everywhere),
        ]

    def _readers(self) -> list[Worker]:
        """One that reads from leaders, and one for each broker, from replicas near to it."""
        places = {"of-leaders": "", **{f"near-{each}": f"r{each}" for each in self._cluster.ids}}
        bootstrap = self._cluster.bootstrap
        return [
            Reader(name, self._history, bootstrap, TOPIC, range(PARTITIONS), rack)
            for name, rack in places.items()
        ]

    def _come_to_rest(self, readers: Sequence[Worker]) -> None:
        """The whole log is read; and the readers have come as far, or cannot."""
        wanted: dict[tuple[str, int], int] = {}
        for partition in range(PARTITIONS):
            try:
                found = read_whole(self._cluster.bootstrap, TOPIC, partition, within=60)
            except KafkaException as failure:
                self._trouble(f"partition {partition}: {failure}", "stuck")
                continue
            for offset, content in found.items():
                self._history.note(Stands(partition, offset, content))
            wanted |= {(each.name, partition): max(found, default=-1) for each in readers}

        def behind() -> dict[tuple[str, int], int]:
            at = {(each.reader, each.partition): each.offset for each in self._history.of(Read)}
            return {key: at.get(key, -1) for key, end in wanted.items() if at.get(key, -1) < end}

        with suppress(TimeoutError):
            wait_until(lambda: not behind(), what="all readers are at the end")
        for (name, partition), at in behind().items():
            what = f"{name} is at offset {at} of {wanted[name, partition]} of {partition}"
            self._trouble(f"{what}, a minute after everybody could read", "stuck")

    def _settle(self) -> None:
        cluster = self._cluster
        try:
            cluster.wait_in_sync(TOPIC, PARTITIONS, within=PATIENCE)
        except TimeoutError as late:
            said = cluster.reported_by(cluster.ids[0], TOPIC).values()
            states = "; ".join(
                f"{each.partition}: leader {each.leader}, in sync {each.in_sync}" for each in said
            )
            self._trouble(f"{late} ({states})", "stuck")
        else:
            self._history.note(Done("all replicas are in sync"))


def stopped(cluster: BrokerCluster) -> list[str]:
    """All brokers that run are stopped; who did not end well."""
    codes = cluster.stop_side_by_side()
    return [f"broker {each} stopped with {code} at the end" for each, code in codes.items() if code]


def faults_of(library_in: Path, within: Path, names: Any) -> dict[str, Faults]:
    """By name, what each process may meet."""
    library = compile_faults(library_in)
    found = {}
    for name in names:
        folder = within / f"disk-{name}"
        folder.mkdir()
        found[name] = Faults(library, folder)
    return found

"""One run: a cluster, those who write and read, what is done to it, rest, and what is judged.

DIR/brokers/…          the brokers' configuration, output and data, ZooKeeper's
DIR/run.script         what was done
DIR/history.jsonl.gz   what happened
DIR/objections         what is wrong, and is not there if nothing is
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from cluster.errors import EmbeddedError
from harness.broker_cluster import BrokerCluster
from harness.server_process import ServerFailed
from tests.cluster_history.bugs import bugs_of
from tests.cluster_history.history import Acknowledged, Done, History, Read, Sent, Stands, Trouble
from tests.cluster_history.judging import ALL, Case, Objection, judge
from tests.cluster_history.logs import Replica, read_replica
from tests.cluster_history.map_watcher import MapWatcher
from tests.cluster_history.nemesis import Nemesis
from tests.cluster_history.readers import NoEnd, Reader, read_whole
from tests.cluster_history.script import Script, parse
from tests.cluster_history.writers import PATIENCE, HeadstrongWriter, LibrdkafkaWriter
from tests.seeded_runs import Outcome
from tests.system.crash import Worker, finish_all
from tests.system.faults import Faults, compile_faults

HISTORY: Final = "history.jsonl.gz"
BROKERS: Final = "brokers"
SCRIPT: Final = "run.script"
PENSTOCK: Final = "penstock"
TOPIC: Final = "history"
PARTITIONS: Final = 4
LAG_SECONDS: Final = 6.0
# Small segments, so that faults also meet the moment of a new one.
CONFIGS: Final = {"segment.bytes": str(256 * 1024), "index.interval.bytes": "512"}


def run(
    script: Script,
    directory: Path,
    say: Callable[[str], None] = lambda _: None,
    *,
    program: str = PENSTOCK,
) -> Outcome:
    """Leaves all there is to see in `directory`, which must be new. `program` is the module that is
    run for each broker."""
    directory.mkdir(parents=True)
    (directory / SCRIPT).write_text(str(script))
    began = time.monotonic()
    history = History()
    error = ""
    objections: tuple[Objection, ...] = ()
    try:
        case = _Run(script, directory, history, say, program).play()
        objections = tuple(judge(case))
    except (ServerFailed, EmbeddedError, TimeoutError, OSError, KafkaException) as failure:
        error = f"{type(failure).__name__}: {failure}"
    history.save(directory / HISTORY)
    said = [str(each) for each in objections] + ([error] if error else [])
    if said:
        (directory / "objections").write_text("\n".join(said) + "\n")
    return Outcome(
        script,
        objections,
        time.monotonic() - began,
        {
            "records sent": len(history.of(Sent)),
            "acknowledged": len(history.of(Acknowledged)),
            "read": len(history.of(Read)),
        },
        error,
    )


class _Run:
    def __init__(
        self,
        script: Script,
        directory: Path,
        history: History,
        say: Callable[[str], None],
        program: str,
    ) -> None:
        self._script, self._history, self._say = script, history, say
        self._program = program
        self._directory = directory / BROKERS
        self._directory.mkdir()
        library = compile_faults(directory)
        ids = range(1, script.brokers + 1)
        self._faults = {each: _faults(library, self._directory / f"disk-{each}") for each in ids}
        self._consumed: dict[int, dict[int, str]] = {}

    def play(self) -> Case:
        settings: dict[str, object] = {"zookeeper_session_seconds": self._script.session}
        if self._script.factor > 1:
            settings["replication"] = {"lag_seconds": LAG_SECONDS}
        cluster = BrokerCluster(
            self._directory,
            brokers=self._script.brokers,
            zookeepers=self._script.zookeepers,
            settings=settings,
            environments={each: faults.environment for each, faults in self._faults.items()},
            program=self._program,
        )
        with cluster:
            self._create_topic(cluster)
            watcher = MapWatcher(self._history, cluster.map_address, TOPIC, PARTITIONS)
            writers, readers = self._writers(cluster), self._readers(cluster)
            nemesis = Nemesis(
                cluster,
                self._faults,
                self._history,
                watcher,
                self._script,
                TOPIC,
                PARTITIONS,
                self._say,
            )
            workers: list[Worker] = [watcher, *readers, *writers]
            for worker in workers:
                worker.start()
            try:
                nemesis.play()
                nemesis.bring_back()
                self._settle(cluster)
                finish_all(writers)
                self._come_to_rest(cluster, readers)
            finally:
                finish_all([*readers, watcher, *writers])
            self._stop(cluster)
            data_dirs = {each: broker.data_dir for each, broker in cluster.brokers.items()}
        self._look_for_bugs(cluster)
        return Case(self._history, self._consumed, _replicas(data_dirs), self._script.in_sync)

    def _create_topic(self, cluster: BrokerCluster) -> None:
        configs = {**CONFIGS, "min.insync.replicas": str(self._script.in_sync)}
        ids, factor = cluster.ids, self._script.factor
        replicas = [
            [ids[(each + place) % len(ids)] for place in range(factor)]
            for each in range(PARTITIONS)
        ]
        cluster.create_topic(TOPIC, replicas=replicas, configs=configs)
        self._settle(cluster)

    def _writers(self, cluster: BrokerCluster) -> list[Worker]:
        """Different ones to each partition; nobody writes to the last."""
        history, bootstrap = self._history, cluster.bootstrap
        addresses = {each: cluster.to_clients[each].address for each in cluster.ids}

        def led(kind: str, partition: int, acks: int, *, idempotent: bool = False) -> Worker:
            name = f"{kind}/{partition}"
            return LibrdkafkaWriter(
                name, history, bootstrap, TOPIC, partition, acks=acks, idempotent=idempotent
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

    def _readers(self, cluster: BrokerCluster) -> list[Worker]:
        """One that reads from leaders, and one for each broker, from replicas near to it."""
        places: dict[str, str] = {"of-leaders": ""}
        places |= {f"near-{each}": f"r{each}" for each in cluster.ids}
        return [
            Reader(name, self._history, cluster.bootstrap, TOPIC, range(PARTITIONS), rack)
            for name, rack in places.items()
        ]

    def _come_to_rest(self, cluster: BrokerCluster, readers: Sequence[Worker]) -> None:
        """The whole log is read; and the readers have come as far, or cannot."""
        for partition in range(PARTITIONS):
            try:
                found = read_whole(cluster.bootstrap, TOPIC, partition, within=60)
            except (NoEnd, KafkaException) as failure:
                self._history.note(Trouble(f"stuck: partition {partition}: {failure}"))
            else:
                self._consumed[partition] = found
                for offset, content in found.items():
                    self._history.note(Stands(partition, offset, content))
        wanted = {
            (reader.name, partition): max(log, default=-1)
            for reader in readers
            for partition, log in self._consumed.items()
        }
        until = time.monotonic() + 30
        while (behind := _behind(self._history, wanted)) and time.monotonic() < until:
            time.sleep(0.3)
        for (name, partition), (at, end) in behind.items():
            what = f"{name} is at offset {at} of {end} of partition {partition}"
            self._history.note(Trouble(f"stuck: {what}, 30 s after everybody could read"))

    def _settle(self, cluster: BrokerCluster) -> None:
        try:
            cluster.wait_in_sync(TOPIC, PARTITIONS, within=PATIENCE)
        except TimeoutError as late:
            said = cluster.said_by(cluster.ids[0], TOPIC).values()
            states = "; ".join(
                f"{each.partition}: leader {each.leader}, in sync {each.in_sync}" for each in said
            )
            self._history.note(Trouble(f"stuck: {late} ({states})"))
        else:
            self._history.note(Done("all replicas are in sync"))

    def _stop(self, cluster: BrokerCluster) -> None:
        for broker, code in cluster.stop_side_by_side().items():
            if code:
                what = f"broker {broker} stopped with {code} at the end"
                self._history.note(Trouble(f"trouble: {what}"))

    def _look_for_bugs(self, cluster: BrokerCluster) -> None:
        for what in bugs_of(cluster):
            self._history.note(Trouble(f"trouble: {what}"))


def judge_again(directory: Path) -> list[Objection]:
    """What is wrong with a run that was kept."""
    history = History.load(directory / HISTORY)
    consumed: dict[int, dict[int, str]] = {each: {} for each in range(PARTITIONS)}
    for each in history.of(Stands):
        consumed[each.partition][each.offset] = each.content
    found = (directory / BROKERS).glob("broker-*/data")
    data_dirs = {int(each.parent.name.removeprefix("broker-")): each for each in found}
    script = parse((directory / SCRIPT).read_text())
    return judge(Case(history, consumed, _replicas(data_dirs), script.in_sync))


def _replicas(data_dirs: Mapping[int, Path]) -> Mapping[int, Sequence[Replica]]:
    """By partition; of the brokers that have one."""
    return {
        partition: [
            read_replica(broker, data_dir / f"{TOPIC}-{partition}")
            for broker, data_dir in sorted(data_dirs.items())
            if (data_dir / f"{TOPIC}-{partition}").is_dir()
        ]
        for partition in range(PARTITIONS)
    }


def _faults(library: Path, directory: Path) -> Faults:
    directory.mkdir()
    return Faults(library, directory)


def _behind(
    history: History, wanted: Mapping[tuple[str, int], int]
) -> dict[tuple[str, int], tuple[int, int]]:
    at: dict[tuple[str, int], int] = {}
    for each in history.of(Read):
        at[each.reader, each.partition] = each.offset
    return {key: (at.get(key, -1), end) for key, end in wanted.items() if at.get(key, -1) < end}

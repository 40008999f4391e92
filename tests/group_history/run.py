"""One run: a cluster, a writer, groups, what is done to them, rest, and what is judged.

DIR/brokers/…      the brokers' configuration, output and data, ZooKeeper's
DIR/told/*.jsonl   what happened, by who has told it; *.log is what members have said
DIR/run.script     what was done
DIR/objections     what is wrong, and is not there if nothing is
"""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from cluster.errors import ClusterError, EmbeddedError
from harness.broker_cluster import BrokerCluster
from harness.server_process import ServerFailed
from tests.cluster_history.bugs import bugs_of
from tests.cluster_history.history import Done as Deed
from tests.cluster_history.history import History as Deeds
from tests.cluster_history.history import Trouble as Fault
from tests.cluster_history.judging import Objection
from tests.cluster_history.script import Script
from tests.group_history import history
from tests.group_history.committed import committed_of
from tests.group_history.growth import Growth
from tests.group_history.history import END, Done, Fetched, History, Notebook, Trouble
from tests.group_history.judging import Case, judge, unread
from tests.group_history.member import Place
from tests.group_history.members import MemberFailed, Members
from tests.group_history.nemesis import Nemesis
from tests.group_history.script import GROUPS, PAPER, groups_of, parse
from tests.group_history.watcher import Watcher
from tests.group_history.writer import Writer
from tests.seeded_runs import Outcome
from tests.system.crash import Worker, finish_all

TOLD: Final = "told"
BROKERS: Final = "brokers"
SCRIPT: Final = "run.script"
PENSTOCK: Final = "penstock"
TOPIC: Final = "numbers"
PARTITIONS: Final = 5
SETTLES: Final = 120.0
COMES_TO_REST: Final = 120.0


def run(
    script: Script,
    directory: Path,
    say: Callable[[str], None] = lambda _: None,
    *,
    program: str = PENSTOCK,
) -> Outcome:
    """Leaves all there is to see in `directory`, which must be new. `program` is the module that is
    run for each broker."""
    (directory / TOLD).mkdir(parents=True)
    (directory / SCRIPT).write_text(str(script))
    began = time.monotonic()
    error = ""
    objections: tuple[Objection, ...] = ()
    try:
        _Run(script, directory, say, program).play()
        objections = tuple(judge_again(directory))
    except (
        *(ServerFailed, EmbeddedError, ClusterError, TimeoutError, OSError, KafkaException),
        MemberFailed,
    ) as failure:
        error = f"{type(failure).__name__}: {failure}"
    said = [str(each) for each in objections] + ([error] if error else [])
    if said:
        (directory / "objections").write_text("\n".join(said) + "\n")
    counts = counts_of(History.load(directory / TOLD))
    return Outcome(script, objections, time.monotonic() - began, counts, error)


def counts_of(told: History) -> dict[str, int]:
    codes = [each.code for each in told.of(history.Committed)]
    return {
        "records written": len(told.of(history.Written)),
        "records read": sum(each.last - each.first + 1 for each in told.of(history.Read)),
        "commits": len(codes),
        "commits acknowledged": codes.count(0),
        "offsets fetched": len(told.of(Fetched)),
        "generations": len({(each.group, each.generation) for each in told.of(history.Saved)}),
    }


def judge_again(directory: Path) -> list[Objection]:
    """What is wrong with a run, by what it has left."""
    script = parse((directory / SCRIPT).read_text())
    return judge(Case(History.load(directory / TOLD), groups_of(script.actions)))


class _Run:
    def __init__(
        self, script: Script, directory: Path, say: Callable[[str], None], program: str
    ) -> None:
        self._script, self._say, self._program = script, say, program
        self._told, self._brokers = directory / TOLD, directory / BROKERS
        self._brokers.mkdir()
        self._groups = groups_of(script.actions)

    def play(self) -> None:
        settings: dict[str, object] = {
            "zookeeper_session_seconds": self._script.session,
            "groups": {"initial_rebalance_delay": 0.2},
            "replication": {"lag_seconds": 6.0},
        }
        cluster = BrokerCluster(
            self._brokers, brokers=self._script.brokers, settings=settings, program=self._program
        )
        with cluster:
            self._create_topic(cluster)
            deeds = Deeds()
            notebook = Notebook(self._told, "run", deeds.began)
            try:
                self._play(cluster, deeds, notebook)
                for broker, code in cluster.stop_side_by_side().items():
                    if code:
                        what = f"broker {broker} stopped with {code} at the end"
                        notebook.note(Trouble(f"trouble: {what}"))
                for what in bugs_of(cluster):
                    notebook.note(Trouble(f"trouble: {what}"))
            finally:
                _hand_over(deeds, self._told)
                notebook.close()

    def _play(self, cluster: BrokerCluster, deeds: Deeds, notebook: Notebook) -> None:
        place = Place(
            name="",
            group="",
            topic=TOPIC,
            bootstrap=cluster.bootstrap,
            map_address=cluster.map_address,
            directory=str(self._told.resolve()),
            began=deeds.began,
            seed=str(self._script.seed),
        )
        members = Members(self._told, place)
        writer = Writer(notebook, cluster.bootstrap, TOPIC, PARTITIONS)
        growth = Growth(cluster, TOPIC, writer, PARTITIONS)
        watcher = Watcher(notebook, cluster.map_address, self._kafkas)
        workers: list[Worker] = [writer, growth, watcher]
        for worker in workers:
            worker.start()
        try:
            nemesis = Nemesis(cluster, members, growth, deeds, self._script, self._say)
            nemesis.play()
            nemesis.bring_back()
            self._settle(cluster, growth, notebook)
            growth.finish()
            writer.finish()
            self._come_to_rest(cluster, members, notebook, writer.ends)
            members.leave_all()
            for group in self._groups:
                self._fetch(cluster, group, writer.ends, notebook)
        finally:
            members.close()
            finish_all(workers)

    @property
    def _kafkas(self) -> tuple[str, ...]:
        return tuple(each for each in self._groups if GROUPS[each] != PAPER)

    def _create_topic(self, cluster: BrokerCluster) -> None:
        ids, factor = cluster.ids, self._script.factor
        replicas = [
            [ids[(each + place) % len(ids)] for place in range(factor)]
            for each in range(PARTITIONS)
        ]
        configs = {"min.insync.replicas": str(self._script.in_sync)}
        cluster.create_topic(TOPIC, replicas=replicas, configs=configs)
        cluster.wait_in_sync(TOPIC, PARTITIONS, within=SETTLES)

    def _settle(self, cluster: BrokerCluster, growth: Growth, notebook: Notebook) -> None:
        try:
            partitions = growth.settle(within=SETTLES)
            cluster.wait_in_sync(TOPIC, partitions, within=SETTLES)
        except TimeoutError as late:
            notebook.note(Trouble(f"stuck: {late}"))

    def _come_to_rest(
        self,
        cluster: BrokerCluster,
        members: Members,
        notebook: Notebook,
        ends: Mapping[int, int],
    ) -> None:
        """Each group has read all, and committed that."""
        behind = set(self._groups)
        until = time.monotonic() + COMES_TO_REST
        while behind and time.monotonic() < until:
            members.check()
            behind = {each for each in behind if self._fetch(cluster, each, ends, notebook) != ends}
            time.sleep(0.3)
        missing = unread(Case(History.load(self._told), self._groups))
        for group in sorted(behind):
            left = [each for name, each in missing if name == group]
            what = f"{group} has not read and committed all {COMES_TO_REST:g} s after all is well"
            notebook.note(Trouble(f"stuck: {what}; unread are records of partitions {left}"))

    def _fetch(
        self, cluster: BrokerCluster, group: str, partitions: Iterable[int], notebook: Notebook
    ) -> dict[int, int] | None:
        """From where on nothing is committed, by partition; None if that cannot be had now."""
        asked = notebook.now()
        found = committed_of(cluster, group, TOPIC, partitions)
        if found is None:
            return None
        notebook.note(Fetched(group, END, found, asked))
        return {each: max(0, offset) for each, offset in found.items()}


def _hand_over(deeds: Deeds, told: Path) -> None:
    """What was done is told with the times at which it was."""
    history.write(
        told / "deeds.jsonl",
        [
            *(Done(each.action, each.at) for each in deeds.of(Deed)),
            *(Trouble(each.what, each.at) for each in deeds.of(Fault)),
        ],
    )

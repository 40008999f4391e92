"""A cluster of three brokers: some are killed, stopped or away, others lead; replicas are moved.

All tests share the cluster. Whatever a test did to it, afterwards it is whole and has no topics.
"""

import json
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient

from client.admin.reassignments import Moving, move, moving, take_throttle_away, throttle
from client.admin.topics import create_topic
from client.reading.consumer import Consumer
from client.reading.offsets import Beginning
from cluster.session.session import Session
from cluster.values import NO_LEADER
from cluster.view import ClusterView
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.broker.api.mirroring import MARK, mirror, source_batch, source_bytes
from tests.broker.api.running_broker import RawClient
from tests.deploy.dashboards import DASHBOARD, RULES, spoken_of
from tests.system.conftest import each_kafka_version, kafka_tools
from tests.system.produce import high_watermark, must_produce, produce
from tests.system.raw import Closed
from tests.system.replicas_at import LISTS, LONG, RATES
from tests.system.three_brokers import SESSION_SECONDS, Cluster, Elected, Throttled, value
from wire.errors import ErrorCode
from wire.mirrored import MIRROR_OF

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka

TOPIC, PARTITIONS = "elected", 12
TICK_SECONDS = 0.5  # sessions end in steps of it
ELECTING_SECONDS = 2.5  # on a busy machine; alone it is a tenth of that
MIB = 2**20


@pytest.fixture(scope="module")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("three"))
    try:
        with cluster:
            yield cluster
    finally:
        cluster.zookeeper.stop()


@pytest.fixture
def cluster(running_cluster: Cluster) -> Iterator[Cluster]:
    yield running_cluster
    running_cluster.restore()


@pytest.fixture
def elected(cluster: Cluster) -> Iterator[Elected]:
    with ExitStack() as ends:
        session = Session.connect(cluster.zookeeper.address + cluster.chroot, secret=None)
        ends.callback(session.close)
        view = ClusterView(session)
        view.start(lambda _: None)
        ends.callback(view.close)
        cluster.at.output("topics", "create", TOPIC, "--partitions", str(PARTITIONS))
        elected = Elected(view, TOPIC)
        elected.wait_until_all_in_sync()
        yield elected


def write(cluster: Cluster, topic: str, values: Iterable[bytes], partitions: int = 1) -> None:
    """One partition after the other; acknowledged by all in sync."""
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number, each in enumerate(values):
        producer.produce(
            topic,
            each,
            partition=number % partitions,
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert producer.flush(LONG) == 0
    assert not refused


def write_bytes(cluster: Cluster, topic: str, size: int) -> None:
    write(cluster, topic, [bytes(100_000)] * (size // 100_000))


def write_numbers(cluster: Cluster, *numbers: int) -> None:
    values = [str(number).encode() for number in range(*numbers)]
    write(cluster, TOPIC, values, PARTITIONS)


def wait_for_numbers(cluster: Cluster, count: int) -> None:
    """Each of them can be consumed, once."""

    def found() -> list[int]:
        with (
            cluster.asked() as brokers,
            Consumer(brokers, TOPIC, Beginning(), to_end=True) as consumer,
        ):
            return sorted(int(each.record.value or b"") for each in consumer)

    what = f"{count} numbers are read, each once"
    wait_until(lambda: found() == list(range(count)), what=what)


# Others lead


def test_a_broker_is_killed_and_others_lead(cluster: Cluster, elected: Elected) -> None:
    """The controller may be it, too; and nothing that was acknowledged is lost."""
    write_numbers(cluster, 0, 1000)
    victim = elected.controller
    assert sum(each.leader == victim for each in elected.partitions) == PARTITIONS // 3
    cluster.broker(victim).kill()
    took = elected.wait(lambda now: all(each.leader not in {victim, NO_LEADER} for each in now))
    assert took < SESSION_SECONDS + TICK_SECONDS + ELECTING_SECONDS
    elected.wait(lambda now: all(victim not in each.isr for each in now))  # each is read by itself
    write_numbers(cluster, 1000, 2000)
    cluster.broker(victim).start()
    elected.wait_until_all_in_sync()
    wait_for_numbers(cluster, 2000)


def test_a_broker_is_stopped_and_others_lead_before(cluster: Cluster, elected: Elected) -> None:
    """Also while somebody writes: nothing fails, nothing is lost."""
    stopped = next(each for each in (1, 2, 3) if each != elected.controller)
    before = elected.partitions
    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(write_numbers, cluster, 20_000)
        assert cluster.broker(stopped).terminate() == 0
        sending.result()
    assert "leadership handed over" in cluster.broker(stopped).log()
    elected.wait(lambda now: all(stopped not in each.isr for each in now))
    for was, each in zip(before, elected.partitions, strict=True):
        assert each.leader not in {stopped, NO_LEADER}
        assert each.leader_epoch == was.leader_epoch + (was.leader == stopped)
    wait_for_numbers(cluster, 20_000)


def test_replicas_move_while_somebody_writes(cluster: Cluster, elected: Elected) -> None:
    """From three brokers to one each, as a Kafka client asks for it."""
    wanted = {index: (index % 3 + 1,) for index in range(PARTITIONS)}
    back = (2, 3)
    admin = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))

    def reassign(targets: Mapping[int, Sequence[int]]) -> None:
        admin.alter_partition_reassignments(
            {kafka.TopicPartition(TOPIC, at): list(where) for at, where in targets.items()}
        )

    with closing(admin), ThreadPoolExecutor(1) as threads:
        sending = threads.submit(write_numbers, cluster, 5000)
        reassign(wanted)
        elected.wait(lambda now: [each.replicas for each in now] == list(wanted.values()))
        sending.result()
        assert not any(admin.list_partition_reassignments().values())
        reassign(dict.fromkeys(wanted, back))
    elected.wait(lambda now: all(each.replicas == back == tuple(sorted(each.isr)) for each in now))
    wait_for_numbers(cluster, 5000)
    kept = [cluster.broker(1).partition_dir(TOPIC, each) for each in range(PARTITIONS)]
    wait_until(lambda: not any(each.exists() for each in kept), what="they are deleted")


class Copier(threading.Thread):
    """Copies a log to whoever leads, beginning anew with each error a little before the end."""

    def __init__(self, cluster: Cluster, copy: Elected, batches: list[bytes]) -> None:
        super().__init__()
        self._cluster = cluster
        self._copy = copy
        self._batches = batches
        self.copied = 0
        self.refused: set[ErrorCode] = set()

    def run(self) -> None:
        due = time.monotonic() + 240
        while self.copied < len(self._batches) and time.monotonic() < due:
            if (leader := self._copy.partitions[0].leader) != NO_LEADER:
                with suppress(OSError, AssertionError):  # it has gone
                    self._copy_to(self._cluster.broker(leader).port)
            time.sleep(0.1)

    def _copy_to(self, port: int) -> None:
        with RawClient(port) as client:
            while self.copied < len(self._batches):
                first = max(0, self.copied - 3)
                part = b"".join(self._batches[first : first + 6])
                answer = mirror(client, self._copy.name, part)
                if answer.error_code is not ErrorCode.none:
                    self.refused.add(answer.error_code)
                    return
                self.copied = min(first + 6, len(self._batches))


def test_a_leader_is_killed_while_a_mirror_copies_to_it(cluster: Cluster, elected: Elected) -> None:
    batches = [
        source_batch(7_000_000_000 + 3 * at, content=b"%d" % at + bytes(500)) for at in range(1_500)
    ]
    copy = Elected(elected.view, "copy")
    with cluster.asked() as brokers:
        configs = {MIRROR_OF: MARK, "min.insync.replicas": "2"}
        create_topic(brokers, copy.name, configs=configs)
    copy.wait_until_all_in_sync()
    copier = Copier(cluster, copy, batches)
    copier.start()
    try:
        for kill_at in (50, 600):
            what = f"{kill_at} batches are copied"
            wait_until(lambda at=kill_at: copier.copied >= at, within=LONG, what=what)
            leader = copy.partitions[0].leader
            cluster.broker(leader).kill()
            copy.wait(lambda now, old=leader: now[0].leader not in {NO_LEADER, old})
            cluster.broker(leader).start(within=LONG)
            copy.wait_until_all_in_sync()
    finally:
        copier.join(300)
    assert copier.copied == len(batches), copier.refused
    assert not copier.refused & {ErrorCode.invalid_record, ErrorCode.out_of_order_sequence_number}
    copy.wait_until_all_in_sync()
    for broker in cluster.servers:
        paths = broker.partition_dir(copy.name).glob("*.log")
        content = b"".join(path.read_bytes() for path in sorted(paths))
        assert source_bytes(content) == source_bytes(b"".join(batches))


# What people see


def test_what_is_seen_when_brokers_go(cluster: Cluster, new_topic: str) -> None:
    first, second, third = cluster.servers
    at = cluster.at

    def listed() -> dict[int, dict[str, Any]]:
        return {each["id"]: each for each in at.json("brokers", "list")}

    def total(name: str, *brokers: BrokerProcess) -> float:
        return sum(value(each, name) or 0 for each in brokers or cluster.servers)

    before = total("copied_bytes_total")
    at.output("topics", "create", new_topic, "--partitions", "3")
    at.output("produce", new_topic, stdin="a\nb\nc\n")
    wait_until(
        lambda: total("copied_bytes_total") > before, within=LONG, what="something is copied"
    )
    assert [value(each, "led_partitions") for each in cluster.servers] == [1, 1, 1]
    assert [value(each, "followed_partitions") for each in cluster.servers] == [2, 2, 2]
    assert total("is_controller") == 1
    assert {each["rack"] for each in listed().values()} == {"r1", "r2", "r3"}
    assert all(each["under_replicated"] == 0 for each in listed().values())
    exposed = "".join(each.http("/metrics")[1] for each in cluster.servers)
    assert not {each for each in spoken_of(DASHBOARD + RULES.read_text()) if each not in exposed}

    third.kill()
    wait_until(
        lambda: "3 is down: start it" in first.http("/readyz")[1],
        within=LONG,
        what="the first one says who is away",
    )
    status, page = first.http("/readyz")
    assert status == 200
    assert page.startswith("ready\nunder-replicated: ")
    wait_until(
        lambda: total("under_replicated_partitions", first, second) == 3,
        within=LONG,
        what="all are under-replicated",
    )
    away = listed()[3]
    assert (away["address"], away["replicas"], away["behind"]) == (None, 3, 3)
    described = at.json("topics", "describe", new_topic)["partitions"]
    assert {each["why"] for each in described} == {"3 away"}
    rows = at.json("brokers", "describe", "3", "--behind")["partitions"]
    assert [(each["role"], each["in_sync"], each["of"]) for each in rows] == [("away", 2, 3)] * 3

    second.kill()
    wait_until(
        lambda: value(first, "below_min_in_sync_partitions") == 3,
        within=LONG,
        what="the last one refuses acks=all",
    )
    page = first.http("/readyz")[1]
    assert "fewer in sync than min.insync.replicas: 3 partitions" in page
    assert "brokers 2, 3 are down: start them" in page
    assert value(first, "brokers_away") == 2
    refused = at.run("topics", "create", f"{new_topic}2")
    assert "Replication factor: 3 larger than available brokers: 1." in refused.stderr
    said = "fewer in sync than min.insync.replicas: "
    wait_until(lambda: said in first.log(), within=LONG, what="it stands in the log")

    for each in (second, third):
        each.start(within=LONG)
    wait_until(cluster.is_well, within=LONG, what="all is well")
    assert value(first, "under_replicated_partitions") == 0


def test_zookeeper_is_away(cluster: Cluster, new_topic: str) -> None:
    """Whoever leads goes on, with acks=all too, as long as all in sync are there. Nobody takes over
    from a broker that dies meanwhile, and nothing is acknowledged that it does not have."""
    cluster.at.output("topics", "create", new_topic, "--partitions", "3")
    leaders = {
        each["partition"]: cluster.broker(each["leader"])
        for each in cluster.at.json("topics", "describe", new_topic)["partitions"]
    }
    cluster.zookeeper.stop()
    try:
        wait_until_each_says(cluster, "\nno connection to ZooKeeper: ")
        for index, leader in leaders.items():
            must_produce(leader.bootstrap, new_topic, [b"meanwhile"], partition=index)

        leaders[0].kill()
        left = leaders[1]
        try:
            answer = produce(left.bootstrap, new_topic, [b"not on all"], partition=1, within=5)
        except (TimeoutError, Closed):
            pass
        else:
            assert answer.error != 0
        assert high_watermark(left.bootstrap, new_topic, partition=1) == 1
    finally:
        cluster.start_zookeeper()
    wait_until(
        lambda: high_watermark(left.bootstrap, new_topic, partition=1) == 2,
        within=LONG,
        what="it is committed by those that are left",
    )
    leaders[0].start(within=LONG)
    wait_until(cluster.is_well, within=LONG, what="all is well")


def wait_until_each_says(cluster: Cluster, text: str) -> None:
    wait_until(
        lambda: all(text in each.http("/readyz")[1] for each in cluster.servers),
        within=LONG,
        what=f"each broker says {text!r}",
    )


def test_no_broker_is_the_controller(cluster: Cluster, new_topic: str) -> None:
    """Somebody else holds the place: what is led goes on, nothing can be created, and it is said
    what to do."""
    at = cluster.at
    at.output("topics", "create", new_topic)
    node = f"{cluster.chroot}/controller"
    usurper = KazooClient(hosts=cluster.zookeeper.address)
    usurper.start()
    try:
        change = usurper.transaction()
        change.delete(node)
        change.create(node, b'{"version":1,"broker_id":99}', ephemeral=True)
        assert not [each for each in change.commit() if isinstance(each, Exception)]
        wait_until_each_says(cluster, "\nno controller: broker 99 was elected and is not")
        (partition,) = at.json("topics", "describe", new_topic)["partitions"]
        must_produce(cluster.broker(partition["leader"]).bootstrap, new_topic, [b"all the same"])
        refused = at.run("topics", "create", f"{new_topic}2")
        assert refused.returncode == 1
        assert "no broker is the controller" in refused.stderr
    finally:
        usurper.stop()
        usurper.close()
    wait_until(cluster.is_well, within=LONG, what="one of them is the controller")
    at.output("topics", "create", f"{new_topic}2")


# Replicas are moved


def moved(cluster: Cluster, topic: str, *replicas: Sequence[int]) -> bool:
    return cluster.replicas(topic) == [tuple(each) for each in replicas]


def test_a_throttled_move_takes_its_time_and_nobody_else_does(cluster: Cluster) -> None:
    """What is written meanwhile, to be copied by who is in sync, would alone take as long."""
    size, rate = 5 * MIB, MIB
    cluster.create("big", [1])
    cluster.create("kept", [1, 2])
    write_bytes(cluster, "big", size)
    sides = [(broker, side) for broker in cluster.servers for side in ("sent", "copied")]
    before = {(broker.broker_id, side): Throttled.of(broker, side) for broker, side in sides}

    def throttled(broker_id: int, side: str) -> Throttled:
        return Throttled.of(cluster.broker(broker_id), side).since(before[broker_id, side])

    move_of_big = {("big", 0): Moving((1, 2), adding=(2,), removing=(1,))}
    throttled_too = {("kept", 0): Moving((1, 2), adding=(1, 2), removing=())}
    with cluster.asked() as brokers:
        throttle(brokers, {**move_of_big, **throttled_too}, (1, 2, 3), rate)
        assert cluster.throttles("big", "kept") == RATES | LISTS
        wait_until(
            lambda: throttled(2, "copied") == (rate, 0, 0),
            within=LONG,
            what="a broker shows the rate",
        )
        began = time.monotonic()
        assert move(brokers, {("big", 0): (2,)}) == {}
        write_bytes(cluster, "kept", size)
        write_bytes(cluster, "big", MIB)
        assert moving(brokers).keys() == {("big", 0)}, "what was written was throttled"
        wait_until(lambda: moved(cluster, "big", [2]), within=LONG, what="it is moved")
        took = time.monotonic() - began
        # A second's worth comes at once; the last answer, a quarter of that, is not waited for.
        assert took >= size / rate - 1.25
        for broker, side, other in ((1, "sent", "copied"), (2, "copied", "sent")):
            shown = throttled(broker, side)
            assert shown.rate == rate
            assert shown.bytes >= size
            assert shown.waited < took + 1  # what waits is counted when it begins
            assert throttled(broker, other).bytes == 0, "what is copied by who is in sync"
        # Who copies waits before it asks, so that who sends need not hold anything back.
        assert throttled(1, "sent").waited + throttled(2, "copied").waited > 0
        assert take_throttle_away(brokers, ["big", "kept"], (1, 2, 3))
        assert cluster.throttles("big", "kept") == set()
        assert not take_throttle_away(brokers, ["big", "kept"], (1, 2, 3))
        wait_until(
            lambda: throttled(2, "sent").rate is None,
            within=LONG,
            what="the rate is shown no more",
        )

        began = time.monotonic()
        assert move(brokers, {("big", 0): (3,)}) == {}
        wait_until(lambda: moved(cluster, "big", [3]), within=LONG, what="it is moved again")
        assert time.monotonic() - began < took
        assert throttled(2, "sent").bytes == 0


def test_the_leaders_side_is_throttled_by_itself(cluster: Cluster) -> None:
    size, rate = 4 * MIB, MIB
    cluster.create("big", [1])
    write_bytes(cluster, "big", size)
    with cluster.asked() as brokers:
        sends_only = {("big", 0): Moving((1,), adding=(), removing=())}
        throttle(brokers, sends_only, (1, 2, 3), rate)
        began = time.monotonic()
        assert move(brokers, {("big", 0): (2,)}) == {}
        wait_until(lambda: moved(cluster, "big", [2]), within=LONG, what="it is moved")
        # A second's worth comes at once; what is left may come in two answers of a batch each.
        assert time.monotonic() - began >= size / rate - 2
        assert take_throttle_away(brokers, ["big"], (1, 2, 3))


def test_a_broker_is_drained_and_filled_again(cluster: Cluster) -> None:
    at = cluster.at
    pairs = ([1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2])
    cluster.create("t", *pairs)
    lines = [f"line {each}" for each in range(600)]
    at.output("produce", "t", stdin="\n".join(lines))

    def read() -> list[str]:
        return at.output("consume", "t", "--from", "beginning", "--count", "600").splitlines()

    planned = at.json("brokers", "drain", "3", "--dry-run")
    assert len(planned) == 4
    assert all(3 in each["from"] and 3 not in each["to"] for each in planned)
    assert moved(cluster, "t", *pairs), "a dry run moves nothing"

    ended = at.run("brokers", "drain", "3", "--throttle", "5e6")
    assert ended.returncode == 0, ended.stderr
    assert "4 of 4 partitions moved" in ended.stderr
    assert "broker 3 has no replicas any more" in ended.stderr
    assert cluster.loads("t") == {1: 6, 2: 6}
    assert cluster.throttles("t") == set()
    again = at.run("brokers", "drain", "3")
    assert (again.returncode, again.stderr) == (0, "broker 3 has no replicas\n")

    third = cluster.broker(3)
    assert third.terminate() == 0
    assert sorted(read()) == sorted(lines)
    stuck = at.run("brokers", "drain", "2")
    assert stuck.returncode == 1
    assert "no broker can take 6 partitions" in stuck.stderr
    absent = at.run("brokers", "fill", "3")
    assert (absent.returncode, "no broker 3" in absent.stderr) == (1, True)
    third.start()

    begun = at.run("brokers", "fill", "3", "--no-wait")
    assert begun.returncode == 0, begun.stderr
    assert "4 partitions are being moved" in begun.stderr
    watched = at.run("brokers", "fill", "3")
    assert watched.returncode == 0, watched.stderr
    assert cluster.loads("t") == {1: 4, 2: 4, 3: 4}
    assert Counter(each[0] for each in cluster.replicas("t")) == {1: 2, 2: 2, 3: 2}
    assert sorted(read()) == sorted(lines)

    cluster.create("uneven", [1, 2], [3, 1])
    with cluster.asked() as brokers:
        assert move(brokers, {("uneven", 1): (3,)}) == {}
    uneven = ([1, 2], [3])
    wait_until(lambda: moved(cluster, "uneven", *uneven), within=LONG, what="one has fewer")
    [only] = (
        each
        for each in at.json("brokers", "drain", "3", "--dry-run")
        if (each["topic"], each["partition"]) == ("uneven", 1)
    )
    assert (only["from"], len(only["to"])) == ([3], 1), "as uneven as before"


@each_kafka_version
def test_kafkas_own_tool_moves_replicas(cluster: Cluster, tmp_path: Path, version: str) -> None:
    cluster.create("t", [1], [2])
    write_bytes(cluster, "t", 4 * MIB)
    targets = {0: [2], 1: [3, 2]}
    moves = [{"topic": "t", "partition": at, "replicas": ids} for at, ids in targets.items()]
    wanted = tmp_path / "moves.json"
    wanted.write_text(json.dumps({"version": 1, "partitions": moves}))
    with kafka_tools(version) as tools:

        def reassign(*arguments: str) -> str:
            where = ("--bootstrap-server", cluster.bootstrap)
            file = ("--reassignment-json-file", str(wanted))
            ended = tools.run("kafka-reassign-partitions", *where, *file, *arguments)
            assert ended.status == 0, ended.said
            return ended.output

        # So slowly that it is still at it whenever the tool is called again; then faster.
        said = reassign("--execute", "--throttle", "10000")
        assert "The inter-broker throttle limit was set to 10000 B/s" in said
        assert "Successfully started partition reassignments for t-0,t-1" in said
        assert cluster.throttles("t") == RATES | LISTS
        assert "is still in progress" in reassign("--verify")
        said = reassign("--execute", "--additional", "--throttle", str(4 * MIB))
        assert "The inter-broker throttle limit was set to 4194304 B/s" in said
        wait_until(
            lambda: "still in progress" not in reassign("--verify"),
            within=LONG,
            what="the tool says that all is moved",
            every=0.5,
        )
    assert moved(cluster, "t", *targets.values())
    assert cluster.throttles("t") == set()

"""The broker that coordinates a group is killed, or stops: its group goes on with another one."""

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from broker.groups.placement import first_of
from cluster.session.session import Session
from harness.kafka.apache_kafka import NEWEST, VERSION, KafkaUnavailable
from harness.penstock.clusters.broker_cluster import BrokerCluster
from tests.system.groups.history import Generations, History, Source, committed
from tests.system.groups.members import Members, member_named
from tests.system.other_languages.programs import FRANZ_GO, SARAMA, ClientUnavailable

pytestmark = pytest.mark.long

SESSION_MS = 45_000  # longer than it takes until another broker coordinates
IN_THREADS = ("librdkafka", "cooperative", "kafka-python", "aiokafka")
# Not kafkajs: when its coordinator dies it comes back as another member, and waits until nobody
# expects the former one any more.
PROGRAMS = {"franz-go": FRANZ_GO, "sarama": SARAMA}
JAVA = {"java": VERSION, "java-4": NEWEST}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokerCluster]:
    settings = {
        "groups": {"initial_rebalance_delay": 0.2},
        "topic_defaults": {"replication_factor": 3, "min.insync.replicas": 2},
    }
    with BrokerCluster(tmp_path, settings=settings) as cluster:
        yield cluster


@pytest.fixture
def session(cluster: BrokerCluster) -> Iterator[Session]:
    session = Session.connect(cluster.map_address, secret=None)
    yield session
    session.close()


def start(members: Members, kind: str, name: str, directory: Path) -> None:
    try:
        if kind in JAVA:
            members.start_verifiable(name, directory, version=JAVA[kind])
        elif kind in PROGRAMS:
            members.start_program(name, PROGRAMS[kind], "range")
        else:
            members.start(name, member_named(kind))
    except (ClientUnavailable, KafkaUnavailable) as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kinds",
    [(*IN_THREADS, "franz-go"), pytest.param(("sarama", *JAVA), marks=pytest.mark.long)],
    ids=["cheap", "dear"],
)
def test_a_group_outlives_its_coordinators(
    cluster: BrokerCluster, session: Session, kinds: Sequence[str]
) -> None:
    scenes = []
    for kind in kinds:
        # All are coordinated by the same broker.
        group = next(
            name
            for name in (f"{kind}-{uuid.uuid4().hex[:8]}" for _ in range(1_000))
            if first_of(name, cluster.ids) == 1
        )
        source = Source(cluster.bootstrap, f"read-by-{kind}", partitions=4, replicas=3)
        history = History()
        members = Members(cluster.bootstrap, group, source.topic, history, session_ms=SESSION_MS)
        scenes.append((kind, group, source, history, members, Generations(session, group)))

    def all_read() -> None:
        for kind, _, source, history, *_ in scenes:
            history.wait_until_each_reads({f"{kind}-1", f"{kind}-2"}, source.write)

    with contextlib.ExitStack() as stack:
        for kind, _, _, _, members, generations in scenes:
            stack.enter_context(generations)
            stack.enter_context(members.all_stopped())
            for number in (1, 2):
                start(members, kind, f"{kind}-{number}", cluster.directory)
        all_read()
        before = {kind: generations.last for kind, *_, generations in scenes}
        cluster.kill(1)
        all_read()
        for kind, *_, generations in scenes:
            # When it has not been answered for some beats, a member of sarama joins again.
            assert generations.last == before[kind] or kind == "sarama"
        cluster.spawn(1)
        cluster.stop(2)
        all_read()
        cluster.spawn(2)
        all_read()
        for _, _, source, history, *_ in scenes:
            history.wait_for(source.written)
    for kind, group, source, history, _, generations in scenes:
        generations.check()
        if kind == "sarama":  # it does not say what was acknowledged
            assert committed(cluster.bootstrap, group, source.topic, source.ends) == source.ends
        else:
            history.check_offsets(cluster.bootstrap, group, source.topic)

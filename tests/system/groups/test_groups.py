"""Groups of foreign clients at one broker, in threads and in programs of their own (Go, Node.js,
Java): members come, go, stand still for longer than their session, die, and come back as who they
were."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from cluster.session.session import Session
from harness.kafka.apache_kafka import NEWEST, VERSION, KafkaUnavailable
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.system.groups.history import WITHIN, Generations, History, Source, committed
from tests.system.groups.members import SESSION_MS, Members, librdkafka, member_named
from tests.system.other_languages.programs import FRANZ_GO, KAFKAJS, SARAMA, ClientUnavailable

pytestmark = pytest.mark.long

STARTED_MS = 600_000  # so long that a JVM is there again in time, whatever else runs


class Scene:
    """A group that reads a source, and all that becomes known of it."""

    def __init__(self, broker: BrokerProcess, session: Session, source: Source) -> None:
        self.broker, self.source = broker, source
        self.name = f"group-{uuid.uuid4().hex[:8]}"
        self.history = History()
        self.generations = Generations(session, self.name)

    @contextmanager
    def running(self, session_ms: int = SESSION_MS) -> Iterator[Members]:
        """Its members; no partition has had two owners when it is over."""
        where = self.broker.bootstrap, self.name, self.source.topic
        members = Members(*where, self.history, session_ms=session_ms)
        with self.generations, members.all_stopped():
            yield members
        self.generations.check()
        assert self.broker.process.alive
        assert "Traceback" not in self.broker.log()

    def all_read(self, *names: str) -> None:
        """Each of them something new."""
        self.history.wait_until_each_reads(set(names), self.source.write)

    def everything_is_read(self) -> None:
        self.history.wait_for(self.source.written)

    def check_offsets(self) -> None:
        self.history.check_offsets(self.broker.bootstrap, self.name, self.source.topic)

    def committed(self) -> dict[int, int]:
        return committed(self.broker.bootstrap, self.name, self.source.topic, self.source.ends)


@pytest.fixture
def scene(broker: BrokerProcess, session: Session, source: Source) -> Scene:
    return Scene(broker, session, source)


def started(start: Callable[[], None]) -> None:
    """Skips the test where a member cannot be had."""
    try:
        start()
    except (ClientUnavailable, KafkaUnavailable) as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("kind", ["librdkafka", "cooperative", "kafka-python", "aiokafka"])
def test_members_come_and_go(scene: Scene, kind: str) -> None:
    with scene.running() as members:
        for name in ("first", "second"):
            members.start(name, member_named(kind))
        scene.all_read("first", "second")
        members.start("third", member_named(kind))
        scene.all_read("first", "second", "third")
        members.stop("first")
        scene.all_read("second", "third")
        members.stop("second")
        scene.source.write()
        scene.everything_is_read()
    scene.check_offsets()


PROGRAMS = {
    "franz-go-cooperative": (FRANZ_GO, "cooperative-sticky"),
    "sarama": (SARAMA, "range"),
    "kafkajs": (KAFKAJS, ""),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", PROGRAMS)
def test_programs_come_stand_still_die_and_go(scene: Scene, kind: str) -> None:
    source = scene.source
    with scene.running() as members:
        started(lambda: members.start_program("first", *PROGRAMS[kind]))
        members.start_program("second", *PROGRAMS[kind])
        scene.all_read("first", "second")
        members.start_program("third", *PROGRAMS[kind])
        scene.all_read("first", "second", "third")
        members.freeze("first")
        members.kill("second")
        source.write()
        scene.everything_is_read()  # what was theirs, too
        members.thaw("first")
        scene.all_read("first", "third")
        members.stop("first")
        source.write()
        scene.everything_is_read()
        # What was read before the last rebalance, and not committed, is read again.
        wait_until(
            lambda: scene.committed() == source.ends,
            within=WITHIN,
            what="all is committed",
            every=0.5,
        )
    assert scene.committed() == source.ends


@pytest.mark.timeout(300)
def test_members_in_go_and_java_share_by_cooperation(scene: Scene, tmp_path: Path) -> None:
    """Of both releases of Kafka's own client."""
    assignor = "CooperativeStickyAssignor"
    with scene.running() as members:
        for name, version in (("java", VERSION), ("java-4", NEWEST)):
            started(
                partial(
                    members.start_verifiable, name, tmp_path, version=version, assignor=assignor
                )
            )
        started(lambda: members.start_program("go", FRANZ_GO, "cooperative-sticky"))
        scene.all_read("java", "java-4", "go")
        members.freeze("java-4")
        members.kill("java")
        scene.source.write()
        scene.everything_is_read()
        members.thaw("java-4")
        scene.all_read("java-4", "go")
        scene.everything_is_read()
    scene.check_offsets()


def start_static(members: Members, kind: str, name: str, directory: Path) -> None:
    match kind:
        case "librdkafka":
            settings = {"group.instance.id": name, "session.timeout.ms": 60_000}
            members.start(name, librdkafka(**settings))
        case "java" | "java-4":
            version = VERSION if kind == "java" else NEWEST
            members.start_verifiable(name, directory, version=version, instance=name)
        case _:
            client = FRANZ_GO if kind == "franz-go" else SARAMA
            members.start_program(name, client, "range", name)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "kind",
    ["librdkafka", "franz-go", "sarama", pytest.param("java", marks=pytest.mark.long), "java-4"],
)
def test_a_static_member_that_restarts_in_time_moves_nobody(
    scene: Scene, tmp_path: Path, kind: str
) -> None:
    with scene.running(STARTED_MS) as members:
        start = partial(start_static, members, kind, directory=tmp_path)
        started(partial(start, "one"))
        start("other")
        scene.all_read("one", "other")
        before = scene.generations.last
        members.stop("one")  # a static member does not leave
        start("one")
        scene.all_read("one", "other")
        if kind != "librdkafka":  # a thread cannot be killed
            members.kill("other")
            start("other")
            scene.all_read("one", "other")
        scene.everything_is_read()
        assert scene.generations.last == before
    if kind == "librdkafka":
        scene.check_offsets()

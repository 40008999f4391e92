"""Groups of the clients of Go, Node.js and Java, each member a process of its own: members come,
go, stand still for longer than their session, are killed, and come back as who they were."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.session import Session
from harness.apache_kafka import NEWEST, VERSION, KafkaUnavailable
from harness.broker_process import BrokerProcess
from harness.waiting import wait_until
from tests.system.groups.history import WITHIN, Generations, History, Source, committed
from tests.system.groups.members import Members
from tests.system.other_languages.programs import FRANZ_GO, KAFKAJS, SARAMA, ClientUnavailable

STARTED_MS = 600_000  # so long that a JVM is there again in time, whatever else runs

Start = Callable[[Members, str, str], None]
"""A member by its name, and, if it is a static one, its instance id."""


def franz_go(balancer: str) -> Start:
    return lambda members, name, instance: members.start_program(name, FRANZ_GO, balancer, instance)


def sarama(balancer: str) -> Start:
    return lambda members, name, instance: members.start_program(name, SARAMA, balancer, instance)


def kafkajs(members: Members, name: str, _: str) -> None:
    members.start_program(name, KAFKAJS)


def started(start: Callable[[], None]) -> None:
    """Skips the test where a member cannot be had."""
    try:
        start()
    except (ClientUnavailable, KafkaUnavailable) as reason:
        pytest.skip(str(reason))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "start",
    [
        pytest.param(franz_go("cooperative-sticky"), id="franz-go-cooperative"),
        pytest.param(sarama("range"), id="sarama"),
        pytest.param(kafkajs, id="kafkajs"),
    ],
)
def test_members_come_stand_still_die_and_go(
    broker: BrokerProcess, session: Session, source: Source, start: Start
) -> None:
    history, group = History(), f"group-of-{source.topic}"
    members = Members(broker.bootstrap, group, source.topic, history)
    with Generations(session, group) as generations, members.all_stopped():
        started(lambda: start(members, "first", ""))
        start(members, "second", "")
        history.wait_until_each_reads({"first", "second"}, source.write)
        start(members, "third", "")
        history.wait_until_each_reads({"first", "second", "third"}, source.write)
        members.freeze("first")
        members.kill("second")
        source.write()
        history.wait_for(source.written)  # what was theirs, too
        members.thaw("first")
        history.wait_until_each_reads({"first", "third"}, source.write)
        members.stop("first")
        source.write()
        history.wait_for(source.written)
        # What was read before the last rebalance, and not committed, is read again.
        wait_until(
            lambda: committed(broker.bootstrap, group, source.topic, source.ends) == source.ends,
            within=WITHIN,
            what="all is committed",
            every=0.5,
        )
    generations.check()
    assert committed(broker.bootstrap, group, source.topic, source.ends) == source.ends
    assert broker.process.alive
    assert "Traceback" not in broker.log()


@pytest.mark.timeout(300)
def test_members_in_go_and_java_share_by_cooperation(
    broker: BrokerProcess, session: Session, source: Source, tmp_path: Path
) -> None:
    """Of both releases of Kafka's own client."""
    history, group = History(), f"group-of-{source.topic}"
    members = Members(broker.bootstrap, group, source.topic, history)

    def java(name: str, version: str) -> None:
        assignor = "CooperativeStickyAssignor"
        members.start_verifiable(name, tmp_path, version=version, assignor=assignor)

    with Generations(session, group) as generations, members.all_stopped():
        started(lambda: java("java", VERSION))
        started(lambda: java("java-4", NEWEST))
        started(lambda: members.start_program("go", FRANZ_GO, "cooperative-sticky"))
        history.wait_until_each_reads({"java", "java-4", "go"}, source.write)
        members.freeze("java-4")
        members.kill("java")
        source.write()
        history.wait_for(source.written)
        members.thaw("java-4")
        history.wait_until_each_reads({"java-4", "go"}, source.write)
        history.wait_for(source.written)
    generations.check()
    history.check_offsets(broker.bootstrap, group, source.topic)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["franz-go", "sarama", "java", "java-4"])
def test_a_static_member_that_restarts_in_time_moves_nobody(
    broker: BrokerProcess, session: Session, source: Source, tmp_path: Path, kind: str
) -> None:
    history, group = History(), f"group-of-{source.topic}"
    members = Members(broker.bootstrap, group, source.topic, history, session_ms=STARTED_MS)

    def start(name: str) -> None:
        if kind in ("java", "java-4"):
            version = VERSION if kind == "java" else NEWEST
            members.start_verifiable(name, tmp_path, version=version, instance=name)
        else:
            client = FRANZ_GO if kind == "franz-go" else SARAMA
            members.start_program(name, client, "range", name)

    with Generations(session, group) as generations, members.all_stopped():
        started(lambda: start("one"))
        start("other")
        history.wait_until_each_reads({"one", "other"}, source.write)
        before = generations.last
        members.stop("one")
        start("one")
        history.wait_until_each_reads({"one", "other"}, source.write)
        members.kill("other")
        start("other")
        history.wait_until_each_reads({"one", "other"}, source.write)
        history.wait_for(source.written)
        assert generations.last == before
    generations.check()

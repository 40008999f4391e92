"""Groups of foreign clients at one broker: members come, go, die and come back."""

import shutil
import uuid
from pathlib import Path

import confluent_kafka
import pytest

from cluster.session import Session
from harness.apache_kafka import NEWEST, VERSION, kafka_classpath, why_no_kafka
from harness.broker_process import BrokerProcess
from harness.waiting import wait_until
from tests.system.groups.history import WITHIN, Generations, History, Source
from tests.system.groups.members import SESSION_MS, Members, librdkafka, member_named


@pytest.mark.parametrize("kind", ["librdkafka", "cooperative", "kafka-python", "aiokafka"])
def test_members_come_and_go(
    broker: BrokerProcess, session: Session, source: Source, kind: str
) -> None:
    history, group = History(), f"group-{uuid.uuid4().hex[:8]}"
    members = Members(broker.bootstrap, group, source.topic, history)
    with Generations(session, group) as generations, members.all_stopped():
        for name in ("first", "second"):
            members.start(name, member_named(kind))
        history.wait_until_each_reads({"first", "second"}, source.write)
        members.start("third", member_named(kind))
        history.wait_until_each_reads({"first", "second", "third"}, source.write)
        members.stop("first")
        history.wait_until_each_reads({"second", "third"}, source.write)
        members.stop("second")
        source.write()
        history.wait_for(source.written)
    generations.check()
    history.check_offsets(broker.bootstrap, group, source.topic)
    assert broker.process.alive
    assert "Traceback" not in broker.log()


def test_clients_of_all_kinds_share_a_group_and_two_of_them_die(
    broker: BrokerProcess, session: Session, source: Source, tmp_path: Path
) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    for version in (VERSION, NEWEST):
        if kafka_classpath(version) is None:
            pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka(version)}")
    history, group = History(), f"group-{uuid.uuid4().hex[:8]}"
    members = Members(broker.bootstrap, group, source.topic, history)
    with Generations(session, group) as generations, members.all_stopped():
        members.start("librdkafka", librdkafka(**{"partition.assignment.strategy": "range"}))
        members.start("kafka-python", member_named("kafka-python"))
        members.start("aiokafka", member_named("aiokafka"))
        members.start_kcat("kcat")
        members.start_java("java", tmp_path)
        members.start_java("java-4", tmp_path, NEWEST)
        living = {"librdkafka", "kafka-python", "aiokafka", "java-4"}
        history.wait_until_each_reads({*living, "kcat", "java"}, source.write)
        members.kill("kcat")
        members.kill("java")
        history.wait_until_each_reads(living, source.write)
        history.wait_for(source.written)
    generations.check()
    history.check_offsets(broker.bootstrap, group, source.topic)


def test_a_static_member_that_restarts_in_time_moves_nobody(
    broker: BrokerProcess, session: Session, source: Source
) -> None:
    history, group = History(), f"group-{uuid.uuid4().hex[:8]}"
    members = Members(broker.bootstrap, group, source.topic, history)

    def static(name: str) -> None:
        settings = {"group.instance.id": name, "session.timeout.ms": 60_000}
        members.start(name, librdkafka(**settings))

    with Generations(session, group) as generations, members.all_stopped():
        static("one")
        static("other")
        history.wait_until_each_reads({"one", "other"}, source.write)
        before = generations.last
        members.stop("one")  # a static member does not leave
        static("one")
        history.wait_until_each_reads({"one", "other"}, source.write)
        history.wait_for(source.written)
        assert generations.last == before
    generations.check()
    history.check_offsets(broker.bootstrap, group, source.topic)


def test_a_member_that_waits_keeps_nobody_else_waiting(
    broker: BrokerProcess, source: Source
) -> None:
    """One that has joined and does not join again: others wait for its rebalance time-out."""
    group = f"group-{uuid.uuid4().hex[:8]}"
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "session.timeout.ms": SESSION_MS,
        "max.poll.interval.ms": 60_000,
        "auto.offset.reset": "earliest",
    }
    idle, waiting = confluent_kafka.Consumer(settings), confluent_kafka.Consumer(settings)
    try:
        idle.subscribe([source.topic])
        wait_until(lambda: bool(idle.poll(0.1) or idle.assignment()), within=WITHIN, what="joined")
        waiting.subscribe([source.topic])
        waiting.poll(0.5)  # joins; the first one is not polled, and so does not join again
        history = History()
        members = Members(broker.bootstrap, f"other-{group}", source.topic, history)
        with members.all_stopped():
            members.start("quick", librdkafka())
            history.wait_until_each_reads({"quick"}, source.write)
        assert not waiting.assignment()
    finally:
        idle.close()
        waiting.close()

"""What brokers say of topics: believed as far as it can be, and it never ends anything."""

import logging
import threading
from pathlib import Path

import pytest

from agent.shipping.questions import MOST_AT_ONCE, Questions
from agent.shipping.topics import Placement, chosen, is_recreated
from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import ClientError, NotKafka
from client.producing.delivery import TopicPartition
from harness.kafka.apache_kafka import ApacheKafka
from harness.penstock.broker import BrokerProcess
from harness.penstock.recreated_topics import create_again
from harness.processes.waiting import wait_until
from ledger.names import LEDGER_TOPIC
from tests.agent.shipping.agent_side import (
    AgentSide,
    Source,
    agent_side,
    log_of,
    messages_in_log,
    now_millis,
)
from tests.agent.shipping.ledger_reader import check_passages, entries_of
from tests.agent.shipping.refusing_broker import RefusingBroker
from tests.client.shipped_topics import producer_of, ship
from tests.client.shipper import numbered_batch
from wire.errors import ErrorCode
from wire.messages import describe_configs

TOPIC = "t"


@pytest.mark.parametrize(
    ("said", "believed"), [("5000", 5_000), ("many", 1_000_000), ("", 1_000_000)]
)
def test_how_large_a_batch_may_be(tmp_path: Path, said: str, believed: int) -> None:
    with RefusingBroker() as broker, agent_side(broker.bootstrap, tmp_path) as side:
        assert side.shipper.most_batch_bytes(TOPIC) == 1_000_000
        broker.configs["max.message.bytes"] = said
        side.target(TOPIC)
        wait_until(lambda: side.shipper.most_batch_bytes(TOPIC) == believed)


def test_limits_that_may_not_be_read_are_a_warning_but_not_those_of_the_ledger(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    code = ErrorCode.topic_authorization_failed
    with RefusingBroker() as broker, agent_side(broker.bootstrap, tmp_path) as side:
        broker.forbidden[describe_configs.API.key] = code
        side.ship(side.new_source(TOPIC), ["0"])
        side.settle()
        wait_until(lambda: broker.events(LEDGER_TOPIC))
    assert "cannot read a topic's limits topic=t" in caplog.text
    assert "limits topic=_audit" not in caplog.text


def test_a_topic_that_takes_nothing_stands_still(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with RefusingBroker() as broker, agent_side(broker.bootstrap, tmp_path) as side:
        broker.configs["max.message.bytes"] = "50"
        assert side.shipper.target(TOPIC) is None
        why = wait_until(lambda: side.shipper.standing().get(TOPIC, ""))
        assert "cannot accept batches" in why
        assert "max.message.bytes=50" in why
        broker.configs.clear()
        side.target(TOPIC)
        wait_until(lambda: side.shipper.stalled() == {})
        wait_until(lambda: "topic resumed topic=t" in caplog.text)
    assert caplog.text.count("topic stalled topic=t") == 1


def test_the_choice_is_always_the_same_and_spreads() -> None:
    places = [chosen(f"agent {number}", TOPIC, "id", 8) for number in range(400)]
    assert places == [chosen(f"agent {number}", TOPIC, "id", 8) for number in range(400)]
    counts = [sum(place.partition == each for place in places) for each in range(8)]
    assert min(counts) > 25
    assert sum(counts) == 400


def test_a_topic_is_another_one() -> None:
    known = Placement(TOPIC, "one", 3, 8)
    assert not is_recreated(known, "one", 16)
    assert is_recreated(known, "two", 16)
    assert not is_recreated(known, "", 8)  # a broker that has no ids
    assert is_recreated(known, "", 4)
    assert not is_recreated(known, "one", 4)  # a broker that is behind


def test_questions_fail_and_others_go_on() -> None:
    with RefusingBroker() as broker:
        answered = threading.Event()
        questions = Questions(Bootstrap.of(broker.bootstrap), "me", answered.set)
        got: list[object] = []

        def nonsense(brokers: Brokers, goes_on: object) -> int:
            raise ZeroDivisionError("what a broker said")

        def sense(brokers: Brokers, goes_on: object) -> int:
            return len(brokers.refresh([TOPIC]).topics)

        for _ in range(MOST_AT_ONCE + 2):
            questions.ask(nonsense, got.append)
        ended = threading.Event()

        def endless(brokers: Brokers, goes_on: object) -> None:
            ended.wait(60)

        for _ in range(MOST_AT_ONCE + 1):
            questions.ask(endless, lambda answer: None, long=True)
        questions.ask(sense, got.append)

        def take() -> bool:
            for call in questions.take():
                call()
            return len(got) == MOST_AT_ONCE + 3

        wait_until(take)
        assert answered.is_set()
        errors = [each for each in got if isinstance(each, ClientError)]
        assert len(errors) == MOST_AT_ONCE + 2
        assert all(isinstance(each, NotKafka) for each in errors)
        assert 1 in got
        ended.set()
        questions.close()


Broker = BrokerProcess | ApacheKafka
DAY = 24 * 60 * 60 * 1000


def ship_lines(side: AgentSide, source: Source, count: int) -> None:
    for _ in range(count):
        side.ship(source, [str(source.seq)])


def numbers(first: int, end: int) -> list[str]:
    return [str(number) for number in range(first, end)]


def test_more_partitions_change_nothing(
    broker: Broker, brokers: Brokers, tmp_path: Path, new_topic: str
) -> None:
    admin.create_topic(brokers, new_topic, partitions=2)
    with agent_side(broker.bootstrap, tmp_path / "agent") as side:
        target = side.target(new_topic)
        ship_lines(side, side.new_source(new_topic), 5)
    admin.add_partitions(brokers, new_topic, 16)
    with agent_side(broker.bootstrap, tmp_path / "agent") as side:
        (source,) = side.sources.values()
        assert side.target(new_topic) == target
        ship_lines(side, source, 5)
        side.settle()
        placement = side.shipper.target(new_topic)
        assert placement is not None
        assert placement.partitions == 2
    assert messages_in_log(brokers, target) == numbers(0, 10)


def test_a_topic_that_is_made_anew_without_the_partition(
    broker: Broker, brokers: Brokers, tmp_path: Path, new_topic: str
) -> None:
    """What is on its way goes to the new topic, and what comes then as well."""
    topic = admin.create_topic(brokers, new_topic, partitions=16)
    with agent_side(broker.bootstrap, tmp_path / "agent") as side:
        source = side.new_source(new_topic)
        side.target(new_topic)
        last = TopicPartition(new_topic, 15)
        for _ in range(5):
            side.ship(source, [str(source.seq)], target=last)
        side.settle()
        parcels = [side.parcel(source, [str(source.seq)], target=last) for _ in range(5)]
        admin.delete_topic(brokers, new_topic)
        # Apache Kafka still takes what comes to it, for a moment, and deletes it with the topic.
        wait_until(
            lambda: new_topic not in admin.all_topics(brokers).topics, within=30, what="it is gone"
        )
        for parcel in parcels:
            side.shipper.submit(parcel)
        again = create_again(brokers, new_topic, after=topic)
        assert again.id != topic.id
        side.settle()
        assert side.target(new_topic) == TopicPartition(new_topic, 0)
        ship_lines(side, source, 5)
    assert messages_in_log(brokers, TopicPartition(new_topic, 0)) == numbers(5, 15)
    passages = [
        passage
        for entry in entries_of(brokers, side.journal.agent_id)
        for passage in entry["passages"]
        if passage["topic"] == new_topic
    ]
    assert len({passage["topic_id"] for passage in passages}) == 2


def test_nothing_is_searched_for_before_it_began(
    broker: Broker, brokers: Brokers, tmp_path: Path, new_topic: str
) -> None:
    """A partition with others' data, and a life that ended before its first acknowledgement."""
    admin.create_topic(brokers, new_topic)
    target = TopicPartition(new_topic, 0)
    with producer_of(brokers) as producer:
        ship(producer, [numbered_batch(target, number) for number in range(4)])
    with agent_side(broker.bootstrap, tmp_path / "agent") as side:
        assert side.target(new_topic) == target
        assert side.journal.acknowledged_offset(target) == 11


def test_events_of_long_ago(
    broker: Broker, brokers: Brokers, tmp_path: Path, new_topic: str
) -> None:
    admin.create_topic(brokers, new_topic)
    times = [now_millis() - 5 * DAY + 3_600_000 * at for at in range(60)]
    with agent_side(broker.bootstrap, tmp_path / "agent") as side:
        source = side.new_source(new_topic)
        side.ship(source, numbers(0, 60), times=times)
        side.settle()
    target = TopicPartition(new_topic, 0)
    records = [record for _, found in log_of(brokers, target) for record in found]
    assert [record.timestamp for record in records] == times
    check_passages(brokers, entries_of(brokers, side.journal.agent_id), target)

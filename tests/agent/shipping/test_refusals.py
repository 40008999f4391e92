"""What real brokers refuse is cured: every event is there, in its order, or is a dead letter."""

from pathlib import Path
from typing import Any

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.errors import Refused
from client.producing.delivery import Acks, TopicPartition
from client.producing.producer import Producer
from harness.kafka.apache_kafka import ApacheKafka
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.agent.shipping.agent_side import (
    AgentSide,
    agent_side,
    events_in_log,
    log_of,
    messages_in_log,
    now_millis,
)
from tests.agent.shipping.ledger_reader import check_passages, check_runs, entries_of, runs_of
from wire.record_batches.compression import Codec

DAY = 24 * 60 * 60 * 1000
Broker = BrokerProcess | ApacheKafka


def three_batches(side: AgentSide, topic: str, middle: list[str], **options: Any) -> str:
    """Returns the source. The one in the middle is refused."""
    source = side.new_source(topic)
    side.ship(source, ["before"])
    side.settle()
    side.ship(source, middle, **options)
    for number in range(5):
        side.ship(source, [f"behind {number}"])
    side.settle()
    return source.id


def check_all(brokers: Brokers, side: AgentSide, topic: str, source: str) -> None:
    """Every event that is none by now is said to be a dead letter."""
    target, entries = TopicPartition(topic, 0), entries_of(brokers, side.journal.agent_id)
    check_passages(brokers, entries, target)
    events, size = side.sources[source].seq, side.sources[source].position  # type: ignore[index]
    runs = runs_of(entries, topic, source)
    dead = sum(
        each["count"] for run in runs for each in run["excepted"] if each["fate"] == "dead_lettered"
    )
    check_runs(entries, topic, source, events=events - dead, size=size)


def test_what_is_too_large_is_split(
    broker: Broker, brokers: Brokers, tmp_path: Path, new_topic: str
) -> None:
    admin.create_topic(brokers, new_topic, configs={"max.message.bytes": "2000"})
    admin.create_topic(brokers, f"{new_topic}.dead", configs={"max.message.bytes": "2000"})
    lines = [f"{number} " + "x" * 300 for number in range(20)]
    large = "y" * 5_000
    with agent_side(broker.bootstrap, tmp_path / "agent") as side:
        side.target(f"{new_topic}.dead")
        middle = [*lines[:7], large, *lines[7:]]
        source = three_batches(side, new_topic, middle, codec=Codec.NONE)
        assert side.shipper.most_batch_bytes(new_topic) == 2000
        assert side.shipper.counts.topics[new_topic].replaced > 3
    assert messages_in_log(brokers, TopicPartition(new_topic, 0)) == [
        *("before", *lines),
        *(f"behind {number}" for number in range(5)),
    ]
    (letter,) = events_in_log(brokers, TopicPartition(f"{new_topic}.dead", 0))
    assert f"(event 8 of source {source})" in letter["reason"]
    assert letter["size"] == 5_001
    assert 0 < len(letter["raw"]) < 2_000
    check_all(brokers, side, new_topic, source)


def test_times_that_are_not_taken_are_put_on_the_bound(
    broker: Broker, brokers: Brokers, tmp_path: Path, new_topic: str
) -> None:
    admin.create_topic(
        brokers, new_topic, configs={"message.timestamp.before.max.ms": str(2 * DAY)}
    )
    times = [now_millis() - 3 * DAY, now_millis() - DAY]
    with agent_side(broker.bootstrap, tmp_path / "agent") as side:
        source = three_batches(side, new_topic, ["old", "not so old"], times=times)
    target = TopicPartition(new_topic, 0)
    assert messages_in_log(brokers, target)[:3] == ["before", "old", "not so old"]
    headers = [event["header"]["time"] for event in events_in_log(brokers, target)]
    assert headers[1:3] == times
    records = [record for _, found in log_of(brokers, target) for record in found]
    assert 0 < records[1].timestamp - (now_millis() - 2 * DAY) < 120_000
    assert records[2].timestamp == times[1]
    check_all(brokers, side, new_topic, source)


def test_what_was_refused_once_is_cured_before_it_is_sent(
    broker: Broker, brokers: Brokers, tmp_path: Path, new_topic: str
) -> None:
    """A backlog of old events does not cost a refusal each."""
    admin.create_topic(
        brokers, new_topic, configs={"message.timestamp.before.max.ms": str(2 * DAY)}
    )
    old = now_millis() - 3 * DAY
    with agent_side(broker.bootstrap, tmp_path / "agent") as side:
        source = side.new_source(new_topic)
        for number in range(30):
            side.ship(source, [str(number)], times=[old])
        side.settle()
        assert side.shipper.counts.topics[new_topic].replaced == 30
    target = TopicPartition(new_topic, 0)
    assert messages_in_log(brokers, target) == [str(number) for number in range(30)]
    assert len({header.producer_epoch for header, _ in log_of(brokers, target)}) <= 3
    check_all(brokers, side, new_topic, source.id)


def clean_up_by(brokers: Brokers, target: TopicPartition, policy: str) -> None:
    """Apache Kafka knows it a moment later: seen by a message without key in another partition."""
    admin.alter_topic(brokers, target.topic, {"cleanup.policy": policy})
    wait_until(lambda: is_taken(brokers, target) == (policy == "delete"))


def is_taken(brokers: Brokers, target: TopicPartition) -> bool:
    producer = Producer(brokers, target.topic, acks=Acks.LEADER, create=False)
    try:
        producer.send(b"anything", partition=target.partition)
        producer.flush()
    except Refused:
        return False
    return True


def test_what_is_no_record_for_the_topic_becomes_dead_letters(
    broker: Broker, brokers: Brokers, tmp_path: Path, new_topic: str
) -> None:
    """A topic that is compacted takes nothing without a key."""
    admin.create_topic(brokers, new_topic, partitions=2)
    target, beside = TopicPartition(new_topic, 0), TopicPartition(new_topic, 1)
    with agent_side(broker.bootstrap, tmp_path / "agent") as side:
        for topic in (new_topic, f"{new_topic}.dead"):
            side.target(topic)
        source = side.new_source(new_topic)
        side.ship(source, ["before"], target=target)
        side.settle()
        clean_up_by(brokers, beside, "compact")
        lines = ["a", "b", "c"]
        side.ship(source, lines, target=target)
        side.settle()
        clean_up_by(brokers, beside, "delete")
        side.ship(source, ["behind"], target=target)
        side.settle()
    assert messages_in_log(brokers, target) == ["before", "behind"]
    letters = events_in_log(brokers, TopicPartition(f"{new_topic}.dead", 0))
    assert [each["header"]["seq"] for each in letters] == [0, 1, 2]
    assert all(line.encode() in each["raw"] for line, each in zip(lines, letters, strict=True))
    check_all(brokers, side, new_topic, source.id)

"""The shipper against Penstock's broker and Apache Kafka: what is submitted is there, once."""

import logging
import time
from pathlib import Path

import pytest

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.patience import NEVER
from harness.kafka.apache_kafka import ApacheKafka
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.agent.full_disk import no_file_beyond
from tests.agent.shipping.agent_side import AgentSide, agent_side, limits, messages_in_log
from tests.agent.shipping.refusing_broker import TAKEN, Outcome, RefusingBroker
from wire.errors import ErrorCode
from wire.record_batches.compression import Codec


def test_what_is_submitted_is_there_once(
    broker: BrokerProcess | ApacheKafka, brokers: Brokers, tmp_path: Path, new_topic: str
) -> None:
    admin.create_topic(brokers, new_topic, partitions=4)
    with agent_side(broker.bootstrap, tmp_path / "agent") as side:
        source = side.new_source(new_topic)
        for number in range(50):
            side.ship(source, [f"{number}-{at}" for at in range(20)])
        side.settle()
        target = side.target(new_topic)
        assert messages_in_log(brokers, target) == [
            f"{number}-{at}" for number in range(50) for at in range(20)
        ]
        assert side.shipper.counts.topics[new_topic].events == 1_000
        assert side.shipper.room()
        assert side.shipper.stalled() == {}


TOPIC, OTHER = "t", "other"


def largest(side: AgentSide) -> int:
    """Size of the journal's largest file."""
    return max(each.stat().st_size for each in side.directory.iterdir())


def refuse(broker: RefusingBroker, topic: str) -> None:
    def rule(asked: str, batch: memoryview) -> Outcome:
        refused = asked == topic
        return Outcome(False, ErrorCode.topic_authorization_failed) if refused else TAKEN

    broker.rule = rule


def test_what_is_on_its_way_is_bounded(tmp_path: Path) -> None:
    with RefusingBroker() as broker:
        small = limits(in_flight_bytes=10_000)
        with agent_side(broker.bootstrap, tmp_path, limits=small) as side:
            source, other = side.new_source(TOPIC), side.new_source(OTHER)
            assert side.shipper.wait_for_room(0)
            refuse(broker, TOPIC)
            side.ship(source, ["x" * 4_000], codec=Codec.NONE)
            assert side.shipper.room()
            assert side.shipper.room(TOPIC)
            side.ship(source, ["x" * 4_000], codec=Codec.NONE)
            assert not side.shipper.room(TOPIC)  # more than half of it
            assert side.shipper.room(OTHER)
            side.ship(source, ["x" * 4_000], codec=Codec.NONE)
            assert side.shipper.in_flight(TOPIC)[0] == 3
            wait_until(lambda: TOPIC in side.shipper.stalled())
            assert side.shipper.wait_for_room(60)  # what stands still does not count
            side.ship(other, ["x" * 9_990], codec=Codec.NONE)
            side.shipper.in_flight_limit = 100
            assert not side.shipper.room()  # four times as much stands still
            side.shipper.in_flight_limit = 10_000
            wait_until(lambda: side.shipper.oldest_open(OTHER) is None)
            assert side.shipper.oldest_open(TOPIC) == side.shipper.oldest_open()
            broker.rule = lambda topic, batch: TAKEN
            side.settle()
        assert len(broker.messages(TOPIC)) == 3


def test_it_waits_so_long_and_ends(tmp_path: Path) -> None:
    with RefusingBroker() as broker:
        silent = Outcome(False, ErrorCode.not_enough_replicas)
        broker.rule = lambda topic, batch: silent
        side = AgentSide(broker.bootstrap, tmp_path)
        side.shipper.start()
        side.ship(side.new_source(TOPIC), ["x"])
        began = time.monotonic()
        assert not side.close(0.5)
        assert time.monotonic() - began < 30
        broker.rule = lambda topic, batch: TAKEN
        with agent_side(broker.bootstrap, tmp_path):
            pass
        assert broker.messages(TOPIC) == ["x"]


def test_what_stands_still_is_not_waited_for(tmp_path: Path) -> None:
    with RefusingBroker() as broker:
        refuse(broker, TOPIC)
        side = AgentSide(broker.bootstrap, tmp_path, stand_seconds=1_000.0)
        side.shipper.start()
        side.ship(side.new_source(TOPIC), ["x"])
        side.ship(side.new_source(OTHER), ["y"])
        wait_until(lambda: TOPIC in side.shipper.stalled())
        assert not side.close(1_000)
        assert broker.messages(OTHER) == ["y"]


def test_an_agent_without_brokers_begins_and_ends(tmp_path: Path) -> None:
    with RefusingBroker() as broker:
        bootstrap = broker.bootstrap
    side = AgentSide(bootstrap, tmp_path)
    side.shipper.start()
    assert side.shipper.target(TOPIC) is None
    wait_until(lambda: TOPIC in side.shipper.stalled())
    assert side.close(1_000)
    never_begun = AgentSide(bootstrap, tmp_path)
    assert never_begun.close(0)


def test_nothing_is_sent_while_the_journal_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with RefusingBroker() as broker, agent_side(broker.bootstrap, tmp_path) as side:
        source = side.new_source(TOPIC)
        side.ship(source, ["before"])
        side.settle()
        parcels = [side.parcel(source, [str(number)]) for number in range(3)]
        with no_file_beyond(largest(side)):
            for parcel in parcels:
                side.shipper.submit(parcel)
            wait_until(lambda: "sending is paused" in caplog.text)
            assert broker.messages(TOPIC) == ["before"]
            time.sleep(0.5)
            assert side.shipper.failure is None
        side.settle()
        assert broker.messages(TOPIC) == ["before", "0", "1", "2"]
        wait_until(lambda: "writable again" in caplog.text)
        assert caplog.text.count("journal writable again") == 1
        assert caplog.text.count("journal not writable") == 1


def test_what_cannot_be_replaced_now_is_replaced_later(tmp_path: Path) -> None:
    refused: list[int] = []

    def rule(topic: str, batch: memoryview) -> Outcome:
        if topic == TOPIC and len(batch) > 5_000:
            refused.append(len(batch))
            return Outcome(False, ErrorCode.message_too_large)
        return TAKEN

    with RefusingBroker(rule) as broker, agent_side(broker.bootstrap, tmp_path) as side:
        source = side.new_source(TOPIC)
        side.ship(source, ["before"])
        side.settle()
        lines = ["x" * 2_000 + str(number) for number in range(4)]
        parcel = side.parcel(source, lines, codec=Codec.NONE)
        # There is room for numbers, and none for halves.
        with no_file_beyond(largest(side) + 4_000):
            side.shipper.submit(parcel)
            wait_until(lambda: refused)
            time.sleep(0.3)
            assert broker.messages(TOPIC) == ["before"]
        side.settle()
        assert broker.messages(TOPIC) == ["before", *lines]


def test_nothing_is_due_as_long_as_there_is_nothing_to_send(tmp_path: Path) -> None:
    with agent_side("127.0.0.1:9", tmp_path) as side:
        assert side.shipper._dispatch.work(now=0.0) == NEVER

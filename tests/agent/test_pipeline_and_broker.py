"""Reading and shipping together, with topics that really do not move."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.shipping.shipper import Shipper
from client import admin
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.delivery import TopicPartition
from harness.broker_process import BrokerProcess
from tests.agent.pipeline_side import append, input_of, pipeline_side, wait_for
from tests.agent.shipping.agent_side import log_of, messages_in_log

TWO_REPLICAS = {"min.insync.replicas": "2"}  # there is one broker


class HeardShipper(Shipper):
    """The real one; what it is told of heartbeats is heard."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts, stand_seconds=0.5)
        self.heard: dict[str, int] = {}

    def heartbeat(self, until: Mapping[str, int], lag_bytes: int) -> None:
        self.heard = dict(until)
        super().heartbeat(until, lag_bytes)


@pytest.fixture
def brokers(running_broker: BrokerProcess) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(running_broker.bootstrap), patience_seconds=60) as connected:
        yield connected


def test_topics_that_do_not_move_stop_neither_lines_nor_heartbeats_of_others(
    running_broker: BrokerProcess, brokers: Brokers, tmp_path: Path, new_topic: str
) -> None:
    """One takes nothing, the dead letters of another stand still, and when they move, every line
    is there once."""
    good, half, bad = (f"{new_topic}-{name}" for name in ("good", "half", "bad"))
    for topic in (good, half, bad, f"{good}.dead", f"{bad}.dead", f"{half}.dead"):
        stands = topic in {bad, f"{half}.dead"}
        admin.create_topic(brokers, topic, configs=TWO_REPLICAS if stands else None)
    inputs = [
        input_of(tmp_path / f"{topic}*.log", topic, max_line_bytes=50, long_lines="dead")
        for topic in (good, half, bad)
    ]
    first, second = tmp_path / f"{half}-1.log", tmp_path / f"{half}-2.log"
    more: dict[str, Any] = {"brokers": running_broker.bootstrap.split(","), "ledger": False}
    with pipeline_side(tmp_path, *inputs, shipper=HeardShipper, **more) as side:
        shipper = side.shipper
        assert isinstance(shipper, HeardShipper)
        shipper.start()
        with side.running():
            append(tmp_path / f"{bad}.log", "one\n")
            append(first, 100 * "x" + "\n")
            wait_for(lambda: shipper.stalled().keys() == {bad, f"{half}.dead"})
            append(tmp_path / f"{good}.log", "one\n")
            append(second, "one\n")
            for topic in (good, half):
                wait_for(lambda topic=topic: shipper.counts.topics[topic].events)
            first_heard = shipper.heard.get(good, 0)
            wait_for(lambda: shipper.heard.get(good, 0) > first_heard)
            before = dict(shipper.heard)
            wait_for(lambda: shipper.heard[good] > before[good])
            assert shipper.heard[bad] == before[bad]
            append(tmp_path / f"{bad}.log", "two\n")
            for topic in (bad, f"{half}.dead"):
                admin.alter_topic(brokers, topic, {"min.insync.replicas": None})
            wait_for(lambda: side.position(tmp_path / f"{bad}.log") == 8)
            wait_for(lambda: all(shipper.heard[topic] for topic in (good, half, bad)))
        assert shipper.stop(20)
        assert len(log_of(brokers, TopicPartition(f"{half}.dead", 0))) == 1
        assert messages(brokers, bad) == ["one", "two"]
        assert messages(brokers, half) == messages(brokers, good) == ["one"]


def messages(brokers: Brokers, topic: str) -> list[str]:
    return messages_in_log(brokers, TopicPartition(topic, 0))

"""`python -m bench.group_lag`: the cost of computing the lag of groups.

One broker, three groups that lag in every partition, each at another offset. "small" has 2,000
partitions with batches of a few hundred bytes, "large" 300 partitions with batches of 300 kB.

    first      without earlier results: reads records, up to 64 MiB
    again      with them, and unchanged offsets
    by time    without reading records
"""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.figures.processes import cpu_seconds
from client.admin.topics import create_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.groups.lag import MOST_BYTES, GroupPartition, Lag, lag
from client.groups.offset_commits import Consumed
from client.producing.delivery import TopicPartition
from client.producing.producer import Producer
from harness.penstock.broker import BrokerProcess
from harness.penstock.clusters.zookeepers import ZooKeepers
from wire.record_batches.records import Codec

_GROUPS: Final = 3
_SIZES: Final = {"small": (2_000, 5, 200), "large": (300, 15, 20_000)}


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, _broker(Path(directory)) as broker:
        print(f"{'batches':8} {'':8} {'seconds':>8} {'broker CPU s':>13} {'own CPU s':>10}")
        for size, (partitions, messages, value_size) in _SIZES.items():
            with Brokers(Bootstrap.of(broker.bootstrap), patience_seconds=120) as brokers:
                create_topic(brokers, size, partitions=partitions)
                _write(brokers, size, partitions, messages, value_size)
                _measure(brokers, broker.process.pid, size, partitions, messages)


def _measure(brokers: Brokers, pid: int, topic: str, partitions: int, messages: int) -> None:
    committed_offsets = {
        f"group-{number}": {
            TopicPartition(topic, partition): Consumed(number % messages)
            for partition in range(partitions)
        }
        for number in range(_GROUPS)
    }
    first_lag: dict[GroupPartition, Lag] = {}
    for name, byte_limit in (("first", MOST_BYTES), ("again", MOST_BYTES), ("by time", 0)):
        previous_lags = first_lag if name == "again" else None
        start_costs = time.monotonic(), cpu_seconds(pid), time.process_time()
        lags = lag(
            brokers, committed_offsets, time.time(), before=previous_lags, most_bytes=byte_limit
        )
        seconds = time.monotonic() - start_costs[0]
        broker, own_cpu = cpu_seconds(pid) - start_costs[1], time.process_time() - start_costs[2]
        assert all(value.seconds for value in lags.values())
        if name == "first":
            first_lag = lags
        print(f"{topic:8} {name:8} {seconds:8.2f} {broker:13.2f} {own_cpu:10.2f}")


def _write(brokers: Brokers, topic: str, partitions: int, messages: int, value_size: int) -> None:
    producer = Producer(brokers, topic, codec=Codec.ZSTD)
    now = time.time()
    for partition in range(partitions):
        for number in range(messages):
            timestamp = int((now - 100 + number) * 1000)
            producer.send(os.urandom(value_size), partition=partition, timestamp=timestamp)
    producer.flush()


@contextmanager
def _broker(directory: Path) -> Iterator[BrokerProcess]:
    zookeepers = ZooKeepers(directory, 1)
    zookeepers.start()
    try:
        with BrokerProcess(directory / "broker", zookeeper=f"{zookeepers.address}/lag") as broker:
            yield broker
    finally:
        zookeepers.close()


if __name__ == "__main__":
    main()

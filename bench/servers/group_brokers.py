"""The brokers under test, without the initial delay of a group's rebalance.

Both wait three seconds by default, which would dominate the measurement. Apache Kafka's offsets
topic has one replica, as there is one broker.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.servers.brokers import (
    APACHE_KAFKA,
    PENSTOCK,
    Broker,
    Kind,
    apache_kafka_server,
    penstock_cluster,
)


@contextlib.contextmanager
def _penstock(directory: Path) -> Iterator[Broker]:
    settings = {"groups": {"initial_rebalance_delay": 0}}
    with penstock_cluster(directory, settings) as (_, server):
        yield Broker(PENSTOCK, server, {})


@contextlib.contextmanager
def _apache_kafka(directory: Path) -> Iterator[Broker]:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.replication.factor": "1",
    }
    with apache_kafka_server(directory, settings=settings) as server:
        yield Broker(APACHE_KAFKA, server, {})


GROUPED: Mapping[str, Kind] = {PENSTOCK: _penstock, APACHE_KAFKA: _apache_kafka}

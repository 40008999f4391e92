"""Two brokers of one cluster, and work on their loops."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from broker.configs.config import BrokerConfig, ReplicationConfig
from broker.configs.topic_rules import NewTopic
from tests.broker.api.requests import unused
from tests.broker.api.running_broker import RunningBroker

T = TypeVar("T")
TIMEOUT = 20_000
DEFAULT_REPLICATION = ReplicationConfig()
Pair = tuple[RunningBroker, RunningBroker]


def run(running: RunningBroker, work: Coroutine[Any, Any, T]) -> T:
    """Do something on a broker's own loop."""
    return asyncio.run_coroutine_threadsafe(work, running.broker.loop).result(60)


def start(
    directory: Path,
    zookeeper: str,
    broker_id: int,
    *,
    session_seconds: float = 4,
    replication: ReplicationConfig = DEFAULT_REPLICATION,
) -> RunningBroker:
    config = BrokerConfig(
        id=broker_id,
        data_dir=str(directory / str(broker_id)),
        zookeeper=zookeeper,
        port=0,
        http_port=0,
        rack=f"rack-{broker_id}",
        zookeeper_session_seconds=session_seconds,
        replication=replication,
    )
    return RunningBroker(config, zookeeper)


def created(running: RunningBroker, *wanted: Any, **more: Any) -> str:
    """A new topic, of so many partitions with so many replicas."""
    name = unused()
    work = running.broker.topics.create(NewTopic(name, *wanted, **more), timeout_ms=TIMEOUT)
    run(running, work)
    return name

"""Apache Kafka as the target, and as the source, too: one broker is both, as names differ."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from harness.kafka.apache_kafka import ApacheKafka
from tests.mirror.workers import Worker, worker

NewMirror = Callable[..., Worker]


@pytest.fixture
def kafka(running_kafka: ApacheKafka) -> Iterator[Brokers]:
    """The target, by a client; and the source."""
    with Brokers(Bootstrap.of(running_kafka.bootstrap), patience_seconds=60) as brokers:
        yield brokers


@pytest.fixture
def new_mirror(running_kafka: ApacheKafka, new_topic: str, tmp_path: Path) -> Iterator[NewMirror]:
    """Workers of one mirror that copy topics which begin with `new_topic`; not started yet."""
    with contextlib.ExitStack() as stack:
        made: list[Worker] = []

        def new(source: str = running_kafka.bootstrap, **settings: Any) -> Worker:
            mirror = worker(
                tmp_path / f"mirror-{len(made)}",
                source,
                running_kafka.bootstrap,
                f"{new_topic}*",
                **{"name": new_topic, "groups": {"sync": False}, **settings},
            )
            made.append(mirror)
            stack.callback(mirror.kill)
            return mirror

        yield new

"""Apache Kafka as the target, and as the source, too: one broker is both, as names differ."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from client.bootstrap import Bootstrap
from client.brokers import Brokers
from harness.apache_kafka import ApacheKafka
from harness.mirror_process import MirrorProcess, side

NewMirror = Callable[..., MirrorProcess]


@pytest.fixture
def kafka(running_kafka: ApacheKafka) -> Iterator[Brokers]:
    """The target, by a client; and the source."""
    with Brokers(Bootstrap.of(running_kafka.bootstrap), patience_seconds=60) as brokers:
        yield brokers


@pytest.fixture
def new_mirror(running_kafka: ApacheKafka, new_topic: str, tmp_path: Path) -> Iterator[NewMirror]:
    """Workers of one mirror that copy topics which begin with `new_topic`; not started yet."""
    with contextlib.ExitStack() as stack:
        made: list[MirrorProcess] = []

        def new(source: str = running_kafka.bootstrap, **settings: Any) -> MirrorProcess:
            mirror = MirrorProcess(
                tmp_path / f"mirror-{len(made)}",
                source=side("dc1", [source]),
                target=side("offline", [running_kafka.bootstrap]),
                settings={
                    "name": new_topic,
                    "topics": [f"{new_topic}*"],
                    "interval": 0.5,
                    "groups": {"sync": False},
                    **settings,
                },
            )
            made.append(mirror)
            stack.callback(mirror.kill)
            return mirror

        yield new

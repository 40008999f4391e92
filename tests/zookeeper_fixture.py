"""A real ZooKeeper for the tests: one for the whole run, and a map of its own for each test."""

import uuid
from collections.abc import Iterator

import pytest

from cluster.zookeeper import EmbeddedZooKeeper


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """Runs on an ephemeral port, unguarded unless a session brings a secret."""
    server = EmbeddedZooKeeper.start(tmp_path_factory.mktemp("zookeeper"), port=0)
    yield server
    server.stop()


@pytest.fixture
def chroot(zookeeper: EmbeddedZooKeeper) -> str:
    """`zookeeper: …` for a map that nobody else uses: 127.0.0.1:port/t…"""
    return f"{zookeeper.address}/t{uuid.uuid4().hex[:12]}"

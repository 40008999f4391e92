"""Two brokers of one cluster."""

import uuid
from collections.abc import Iterator

import pytest

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from tests.broker.pairs import Pair, start


@pytest.fixture(scope="module")
def pair(zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """The first is the controller."""
    directory = tmp_path_factory.mktemp("brokers")
    address = f"{zookeeper.address}/t{uuid.uuid4().hex[:12]}"
    with start(directory, address, 1) as first, start(directory, address, 2) as second:
        for each in (first, second):
            each.broker.cluster.wait_for(lambda map_: map_.brokers.keys() == {1, 2})
        assert first.broker.cluster.snapshot.controller_id == 1
        yield first, second

"""A topic that is made as somebody asks about it, where the broker asked may not make it."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess


@pytest.fixture
def two(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> Iterator[dict[int, BrokerProcess]]:
    chroot = f"{zookeeper.address}/{uuid.uuid4().hex}"
    with ExitStack() as ends:
        yield {
            each: ends.enter_context(
                BrokerProcess(
                    tmp_path / f"broker-{each}",
                    zookeeper=chroot,
                    broker_id=each,
                    settings={"ledger": False},
                )
            )
            for each in (1, 2)
        }


def test_it_is_made_at_once_whichever_broker_was_reached_first(
    two: dict[int, BrokerProcess],
) -> None:
    for first, broker in two.items():
        with Brokers(Bootstrap.of(broker.bootstrap)) as brokers:
            assert set(brokers.refresh([]).brokers) == set(two)
            made = brokers.topic(f"asked-at-{first}", create=True)
            assert made.partition(0).leader in two

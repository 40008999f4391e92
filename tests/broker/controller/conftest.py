"""Sessions with the real ZooKeeper, of a controller and of brokers."""

from collections.abc import Callable

import pytest

from cluster.records.brokers import register
from cluster.session.session import Session
from tests.cluster.conftest import Connect, a_broker, connect, epoch, session

__all__ = ["connect", "epoch", "session"]

Live = Callable[[int], Session]


@pytest.fixture
def live(connect: Connect) -> Live:
    """Registers brokers: each is alive until its session is closed."""

    def registered(broker_id: int) -> Session:
        session = connect()
        register(session, a_broker(broker_id))
        return session

    return registered

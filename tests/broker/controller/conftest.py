"""Sessions with the real ZooKeeper, of a controller and of brokers."""

from collections.abc import Callable

import pytest

from cluster.brokers import register
from cluster.controller import elect
from cluster.session import Session
from cluster.values import ControllerEpoch
from tests.cluster.conftest import Connect, a_broker, connect, session

__all__ = ["connect", "session"]

Live = Callable[[int], Session]


@pytest.fixture
def live(connect: Connect) -> Live:
    """Registers brokers: each is alive until its session is closed."""

    def registered(broker_id: int) -> Session:
        session = connect()
        register(session, a_broker(broker_id))
        return session

    return registered


@pytest.fixture
def epoch(session: Session) -> ControllerEpoch:
    won = elect(session, 1)
    assert won is not None
    return won

"""A new group for each test, and sessions with a real ZooKeeper for those who keep groups there."""

import pytest

from tests.broker.groups.membership.scene import Scene
from tests.cluster.conftest import connect, proxied, proxy, session

__all__ = ["connect", "proxied", "proxy", "session"]


@pytest.fixture
def scene() -> Scene:
    return Scene()

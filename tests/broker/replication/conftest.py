"""Sessions with a real ZooKeeper."""

from tests.cluster.conftest import connect, session

__all__ = ["connect", "session"]

"""Follows the nodes of one directory: their contents by name, kept current by watches.

While ZooKeeper is away, or after it was wiped, the last known contents stay. Only direct children
are read.
"""

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from cluster.errors import MapMissing
from cluster.session.node_follower import NodeFollower
from cluster.session.session import Session

Contents = Mapping[str, bytes]


class FollowedDirectory:
    """Follows a directory. `on_change` gets all contents whenever they have changed: first on the
    thread that calls `start`, later on its own."""

    def __init__(self, session: Session, path: str, on_change: Callable[[Contents], None]) -> None:
        self._session = session
        self._path = path
        self._on_change = on_change
        self._follower = NodeFollower(session, path, self._read)
        self._known: dict[str, bytes] = {}
        self._reported: dict[str, bytes] | None = None

    def start(self) -> None:
        self._follower.start()

    def close(self) -> None:
        self._follower.close()

    def refresh(self) -> None:
        """Returns once `on_change` has everything that was written before this call."""
        self._follower.refresh()

    def _read(self, dirty: set[str] | None) -> None:
        known = {} if dirty is None else dict(self._known)
        self._read_into(known, {self._path} if dirty is None else dirty)
        self._known = known
        if known != self._reported and not self._follower.stopping:
            self._on_change(MappingProxyType(known))
            self._reported = known

    def _read_into(self, known: dict[str, bytes], dirty: set[str]) -> None:
        session, watch = self._session, self._follower.note
        deadline = time.monotonic() + session.timeout_s
        wanted = {path.rpartition("/")[2] for path in dirty if path != self._path}
        if self._path in dirty:
            names = session.start_children(self._path, watch).get(deadline - time.monotonic())
            if names is None:
                raise MapMissing(
                    f"ZooKeeper at {session.address} has no node {self._path}: it was wiped or "
                    "replaced; its last known contents stay in use"
                )
            wanted |= set(names) - known.keys()
            for name in known.keys() - set(names):
                del known[name]
        # Pipelined, to avoid a round trip per node.
        pending = [(name, session.start_read(f"{self._path}/{name}", watch)) for name in wanted]
        for name, answer in pending:
            node = answer.get(deadline - time.monotonic())
            if node is None:
                known.pop(name, None)
            else:
                known[name] = node.data

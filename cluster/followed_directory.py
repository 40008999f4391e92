"""The nodes of one directory, kept current: their contents by name, which watches replace.

While ZooKeeper is away, or was wiped, what was known last stands. Nodes below those are not looked
at.
"""

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from cluster.errors import MapMissing
from cluster.following import Following
from cluster.session import Session

Contents = Mapping[str, bytes]


class FollowedDirectory:
    """`on_change` gets all contents whenever they differ from those before: the first on the thread
    that starts this, later ones on its own."""

    def __init__(self, session: Session, path: str, on_change: Callable[[Contents], None]) -> None:
        self._session = session
        self._path = path
        self._on_change = on_change
        self._following = Following(session, path, self._read)
        self._known: dict[str, bytes] = {}
        self._told: dict[str, bytes] | None = None

    def start(self) -> None:
        self._following.start()

    def close(self) -> None:
        self._following.close()

    def refresh(self) -> None:
        """Returns when `on_change` knows all that anyone had written before this call."""
        self._following.refresh()

    def _read(self, dirty: set[str] | None) -> None:
        known = {} if dirty is None else dict(self._known)
        self._read_into(known, {self._path} if dirty is None else dirty)
        self._known = known
        if known != self._told and not self._following.stopping:
            self._on_change(MappingProxyType(known))
            self._told = known

    def _read_into(self, known: dict[str, bytes], dirty: set[str]) -> None:
        session, watch = self._session, self._following.note
        deadline = time.monotonic() + session.timeout_s
        wanted = {path.rpartition("/")[2] for path in dirty if path != self._path}
        if self._path in dirty:
            names = session.start_children(self._path, watch).get(deadline - time.monotonic())
            if names is None:
                raise MapMissing(
                    f"ZooKeeper at {session.address} has no node {self._path}: it was wiped or "
                    "replaced; what was known of it stays in use"
                )
            wanted |= set(names) - known.keys()
            for name in known.keys() - set(names):
                del known[name]
        # All are asked for at once: no round trip for each.
        pending = [(name, session.start_read(f"{self._path}/{name}", watch)) for name in wanted]
        for name, answer in pending:
            node = answer.get(deadline - time.monotonic())
            if node is None:
                known.pop(name, None)
            else:
                known[name] = node.data

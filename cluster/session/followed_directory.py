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
        """Waits until `on_change` has everything that was written before this call."""
        self._follower.refresh()

    def _read(self, changed_paths: set[str] | None) -> None:
        contents = {} if changed_paths is None else dict(self._known)
        self._read_into(contents, {self._path} if changed_paths is None else changed_paths)
        self._known = contents
        if contents != self._reported and not self._follower.stopping:
            self._on_change(MappingProxyType(contents))
            self._reported = contents

    def _read_into(self, contents: dict[str, bytes], changed_paths: set[str]) -> None:
        session, watch = self._session, self._follower.note
        deadline = time.monotonic() + session.timeout_s
        names_to_read = {path.rpartition("/")[2] for path in changed_paths if path != self._path}
        if self._path in changed_paths:
            names = session.start_children(self._path, watch).get(deadline - time.monotonic())
            if names is None:
                raise MapMissing(
                    f"ZooKeeper at {session.address} has no node {self._path}: it was wiped or "
                    "replaced; its last known contents stay in use"
                )
            names_to_read |= set(names) - contents.keys()
            for name in contents.keys() - set(names):
                del contents[name]
        # Pipelined, to avoid a round trip per node.
        answers = [
            (name, session.start_read(f"{self._path}/{name}", watch)) for name in names_to_read
        ]
        for name, answer in answers:
            node = answer.get(deadline - time.monotonic())
            if node is None:
                contents.pop(name, None)
            else:
                contents[name] = node.data

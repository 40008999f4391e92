"""The nodes of one directory, kept current: their contents by name, which watches replace.

As the cluster's map (cluster/view.py): a thread of its own reads, kazoo's callbacks only note what
has changed; after a lost connection everything is read anew, and until that is done, or while
ZooKeeper is away or was wiped, what was known last stands.

Nodes below those are not looked at.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from kazoo.protocol.states import EventType, WatchedEvent

from cluster.errors import MapMissing, Unavailable
from cluster.session import Session, SessionState
from cluster.upkeep import Upkeep

Contents = Mapping[str, bytes]

log = logging.getLogger(__name__)


class FollowedDirectory:
    """`on_change` gets all contents whenever they differ from those before: the first on the thread
    that starts this, later ones on its own."""

    def __init__(self, session: Session, path: str, on_change: Callable[[Contents], None]) -> None:
        self._session = session
        self._path = path
        self._on_change = on_change
        self._upkeep = Upkeep(f"following {path}", self._follow)
        self._known: dict[str, bytes] = {}  # of the upkeep's thread alone, once that runs
        self._told: dict[str, bytes] | None = None
        self._changed = threading.Condition()  # guards what follows
        self._dirty: set[str] = set()
        self._stale = True
        self._begun = 0
        self._completed = 0

    def start(self) -> None:
        self._session.add_listener(self._on_state)
        self._follow()
        if self._completed == 0:
            raise Unavailable(f"the connection to {self._session.address} broke during the start")
        self._upkeep.start()

    def close(self) -> None:
        self._upkeep.stop()

    def refresh(self, timeout_s: float = 10.0) -> None:
        """Returns when `on_change` knows all that anyone had written before this call."""
        self._session.sync()
        with self._changed:
            target = self._begun + 1
            self._upkeep.poke()
            if not self._changed.wait_for(lambda: self._completed >= target, timeout_s):
                raise Unavailable(
                    f"{self._path} at {self._session.address} could not be read within "
                    f"{timeout_s:g} s"
                )

    # Noting what has changed: on threads of kazoo's

    def _on_state(self, state: SessionState) -> None:
        if state is not SessionState.CONNECTED:
            with self._changed:
                self._stale = True
        else:
            self._upkeep.poke()

    def _on_event(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:  # else: the session's state, which `_on_state` has too
            with self._changed:
                self._dirty.add(event.path)
            self._upkeep.poke()

    # Reading it: on this one's thread

    def _follow(self) -> None:
        if self._session.state is not SessionState.CONNECTED:
            return  # to be poked when it is
        with self._changed:
            self._begun += 1
            begun, stale = self._begun, self._stale
            dirty, self._dirty = self._dirty, set()
            self._stale = False
        try:
            known = {} if stale else dict(self._known)
            self._read(known, {self._path} if stale else dirty)
            self._known = known
            if known != self._told and not self._upkeep.stopping:
                self._on_change(MappingProxyType(known))
                self._told = known
        except BaseException:
            with self._changed:
                self._stale = True
            raise
        with self._changed:
            self._completed = begun
            self._changed.notify_all()

    def _read(self, known: dict[str, bytes], dirty: set[str]) -> None:
        session, deadline = self._session, time.monotonic() + self._session.timeout_s
        wanted = {path.rpartition("/")[2] for path in dirty if path != self._path}
        if self._path in dirty:
            children = session.start_children(self._path, self._on_event)
            names = children.get(deadline - time.monotonic())
            if names is None:
                raise MapMissing(
                    f"ZooKeeper at {session.address} has no node {self._path}: it was wiped or "
                    "replaced; what was known of it stays in use"
                )
            wanted |= set(names) - known.keys()
            for name in known.keys() - set(names):
                del known[name]
        # All are asked for at once: no round trip for each.
        pending = [
            (name, session.start_read(f"{self._path}/{name}", self._on_event)) for name in wanted
        ]
        for name, answer in pending:
            node = answer.get(deadline - time.monotonic())
            if node is None:
                known.pop(name, None)
            else:
                known[name] = node.data

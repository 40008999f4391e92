"""Follows ZooKeeper: watches note changed nodes, and one thread reads them.

Watches and session events are called on kazoo's threads, which must never wait. After a lost
connection everything is read again, since the watches are gone; until then the last result stays.
"""

import threading
from collections.abc import Callable
from typing import Final

from kazoo.protocol.states import EventType, WatchedEvent

from cluster.errors import Unavailable
from cluster.session.session import Session, SessionState
from cluster.session.upkeep import Upkeep

PATIENCE_S: Final = 10.0


class NodeFollower:
    """Follows nodes. `read` gets the nodes that have changed since its last call, or None for
    everything: first on the thread that calls `start`, then on its own. After a failure, everything
    is read again.

    `read` uses `note` as its watch, and checks `stopping` before it reports anything.
    """

    def __init__(
        self, session: Session, what: str, read: Callable[[set[str] | None], None]
    ) -> None:
        self._session = session
        self._what = what
        self._read = read
        self._upkeep = Upkeep(f"following {what}", self._follow)
        self._changed = threading.Condition()  # guards the fields below
        self._dirty: set[str] = set()
        self._stale = True  # watches are lost: read everything
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

    @property
    def stopping(self) -> bool:
        return self._upkeep.stopping

    def note(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:  # otherwise a session event, for `_on_state`
            with self._changed:
                self._dirty.add(event.path)
            self._upkeep.poke()

    def wait_until(self, met: Callable[[], bool], timeout_s: float) -> bool:
        """Waits for the condition, which is checked now and after each read; returns whether it was
        met in time."""
        with self._changed:
            return self._changed.wait_for(met, timeout_s)

    def refresh(self, timeout_s: float = PATIENCE_S) -> None:
        """Waits until everything that was written before this call has been read."""
        self._session.sync()
        with self._changed:
            target = self._begun + 1
        self._upkeep.poke()
        if not self.wait_until(lambda: self._completed >= target, timeout_s):
            raise Unavailable(
                f"{self._what} at {self._session.address} could not be read within {timeout_s:g} s"
            )

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._upkeep.poke()
        else:
            with self._changed:
                self._stale = True

    def _follow(self) -> None:
        if self._session.state is not SessionState.CONNECTED:
            return  # poked again when connected
        with self._changed:
            self._begun += 1
            begun_event, is_stale = self._begun, self._stale
            changed_nodes, self._dirty = self._dirty, set()
            self._stale = False
        try:
            self._read(None if is_stale else changed_nodes)
        except BaseException:
            with self._changed:
                self._stale = True
            raise
        with self._changed:
            self._completed = begun_event
            self._changed.notify_all()

"""Keeps state in ZooKeeper correct for as long as the process lives.

`act` runs on a thread of its own: at the start, after every poke, and again after a failure, with
pauses up to MAX_PAUSE_S. Pokes while it runs cause one more run. So `act` compares the actual state
with the wanted one and corrects it, without knowing why it was called.

After `stop`, `act` must not report anything: it checks `stopping` first. It may be waiting for a
ZooKeeper that is away, which ends when the session closes; `stop` does not wait for that.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from cluster.errors import ClusterError

FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 5.0
_STOP_S: Final = 1.0

log = logging.getLogger(__name__)


class Upkeep:
    def __init__(self, name: str, act: Callable[[], None]) -> None:
        self._name = name
        self._act = act
        self._poked = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._poked.set()
        self._thread.start()

    def poke(self) -> None:
        """Runs `act` soon. Never blocks: may be called on any thread, including kazoo's."""
        self._poked.set()

    @property
    def stopping(self) -> bool:
        return self._stopping

    def stop(self) -> None:
        """Stops, and waits a moment for a running `act`, unless called by it."""
        self._stopping = True
        self._poked.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(_STOP_S)

    def _run(self) -> None:
        pause: float | None = None
        while True:
            self._poked.wait(pause)
            self._poked.clear()
            if self._stopping:
                return
            pause = self._attempt(pause)

    def _attempt(self, pause: float | None) -> float | None:
        """Run `act`; returns the pause before a retry, None until the next poke."""
        try:
            self._act()
        except ClusterError as error:
            if not self._stopping:
                log.warning("%s failed, trying again error=%r", self._name, str(error))
        except Exception:  # a bug: logged with its trace, and retried
            log.exception("%s failed, trying again", self._name)
        else:
            return None
        return min(2 * pause, MAX_PAUSE_S) if pause else FIRST_PAUSE_S

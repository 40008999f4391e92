"""Periodic work beside the copying, on a thread of its own. No failure ends the thread or delays
the copying."""

import logging
import threading
from abc import ABC, abstractmethod
from typing import Final

from client.connection.brokers import Brokers
from client.errors import ClientError
from mirror.config import MirrorConfig

log = logging.getLogger(__name__)

_PATIENCE_S: Final = 15.0
_GLANCE_S: Final = 1.0  # between rounds, while there is nothing to do


class PeriodicTask(ABC):
    """A task that is repeated. `what` names the work; `waits` is the log message when it fails."""

    def __init__(self, config: MirrorConfig, interval: float, *, what: str, waits: str) -> None:
        self.trouble = ""  # of the last round; any thread
        self._config = config
        self._interval = interval
        self._what = what
        self._waits = waits
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=what, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    @abstractmethod
    def look(self) -> bool:
        """Does one round; returns whether there was anything to do. Raises ClientError."""

    def _run(self) -> None:
        poll_s = min(_GLANCE_S, self._interval)
        pause = poll_s
        while not self._stopping.wait(pause):
            pause = self._interval
            try:
                if not self.look():
                    pause = poll_s
                self.trouble = ""
            except ClientError as error:
                if str(error) != self.trouble:
                    log.warning("%s error=%r", self._waits, str(error))
                self.trouble = str(error)
            except Exception as error:  # a bug: the next round tries again
                log.exception("%s failed, trying again", self._what)
                self.trouble = repr(error)

    def _side(self, *, source: bool) -> Brokers:
        side = self._config.source if source else self._config.target
        client_id = f"penstock-mirror-{self._what}"
        return Brokers(side.bootstrap, client_id=client_id, patience_seconds=_PATIENCE_S)

"""What is looked at every so many seconds, beside the copying: a thread of its own, which nothing
ends but being told to, and which keeps no partition from being copied.
"""

import logging
import threading
from abc import ABC, abstractmethod
from typing import Final

from client.brokers import Brokers
from client.errors import ClientError
from mirror.config import MirrorConfig

log = logging.getLogger(__name__)

_PATIENCE_S: Final = 15.0
_GLANCE_S: Final = 1.0  # from one look to the next, while there is nothing to look at


class Rounds(ABC):
    """See the module. `what` is looked at, in a word; `waits` says that it is not done just now."""

    def __init__(self, config: MirrorConfig, interval: float, *, what: str, waits: str) -> None:
        self.trouble = ""  # of the last look; any thread
        self._config = config
        self._interval = interval
        self._what = what
        self._waits = waits
        self._told = threading.Event()
        self._thread = threading.Thread(target=self._run, name=what, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._told.set()
        self._thread.join()

    @abstractmethod
    def look(self) -> bool:
        """Whether there was anything to look at. On the thread; raises ClientError."""

    def _run(self) -> None:
        glance = min(_GLANCE_S, self._interval)
        pause = glance
        while not self._told.wait(pause):
            pause = self._interval
            try:
                if not self.look():
                    pause = glance
                self.trouble = ""
            except ClientError as error:
                if str(error) != self.trouble:
                    log.warning("%s error=%r", self._waits, str(error))
                self.trouble = str(error)
            except Exception as error:  # a bug of ours: the next look tries again
                log.exception("looking at %s failed, trying again", self._what)
                self.trouble = repr(error)

    def _side(self, *, source: bool) -> Brokers:
        side = self._config.source if source else self._config.target
        client_id = f"penstock-mirror-{self._what}"
        return Brokers(side.bootstrap, client_id=client_id, patience_seconds=_PATIENCE_S)

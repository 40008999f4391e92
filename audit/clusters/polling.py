"""Polls one cluster on a thread of its own.

Nothing waits for it. After a failure to reach the cluster, or a bug, it retries after a pause.
"""

import logging
import threading
from abc import ABC, abstractmethod
from typing import Final

from audit.configuration.config import Cluster
from client.connection.brokers import Brokers
from client.errors import ClientError
from ground.randomness import chance

ANSWER_S: Final = 5.0  # for one request

_PATIENCE_S: Final = 2.0
_ENDS_WITHIN_S: Final = 10.0

log = logging.getLogger(__name__)


class ClusterPoller(ABC):
    """A thread that polls one cluster. Call `start` once; `ask_to_stop` ends it soon. Subclasses
    implement the requests."""

    def __init__(self, name: str, cluster: Cluster, *, about: str, every_seconds: float) -> None:
        self._name = name
        self._cluster = cluster
        self._about = about
        self._every = every_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{about}-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        self._stopping.set()

    def join(self) -> None:
        """Waits for the thread, up to a limit; a request that is still open then is abandoned."""
        self._thread.join(_ENDS_WITHIN_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with Brokers(
                    self._cluster.bootstrap,
                    client_id="penstock-audit",
                    patience_seconds=_PATIENCE_S,
                ) as brokers:
                    self._poll(brokers)
            except ClientError as error:
                self._note_failure(error)
            except Exception:  # a bug must not end the thread silently
                log.exception("polling %s failed cluster=%s", self._about, self._name)
                self._note_failure(None)
            self._wait(self._every)

    @abstractmethod
    def _poll(self, brokers: Brokers) -> None:
        """Polls until stopped, or until the cluster cannot be reached. Raises ClientError."""

    @abstractmethod
    def _note_failure(self, error: ClientError | None) -> None:
        """Notes that the cluster could not be asked; None: because of a bug, which is logged."""

    def _wait(self, seconds: float) -> None:
        self._stopping.wait(seconds * (0.9 + chance() / 5))

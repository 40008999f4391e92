"""What an operator says to a copy amid all trouble: pause and resume, open it and have it back.

Any command may fail then, as what it needs is away. When all is healed, each must do what it says.
"""

import contextlib
import subprocess
import time
from typing import Final

from confluent_kafka import KafkaException, Producer

from harness.two_clusters import TwoClusters
from tests.cluster_history.history import History, Trouble

HEALS: Final = 120.0
_COMMAND: Final = 180.0
_WRITES: Final = 5.0
_OWN: Final = 7  # records


class Commands:
    """To one copy, with the first mirror's configuration."""

    def __init__(self, clusters: TwoClusters, copy: str, history: History) -> None:
        self._clusters, self._copy, self._history = clusters, copy, history
        self.paused = self.opened = False

    def tell(self, command: str, *options: str) -> "subprocess.CompletedProcess[str]":
        told = self._clusters.mirrors[1].told(command, self._copy, *options, within=_COMMAND)
        if "Traceback" in told.stderr:
            self._history.note(Trouble(f"trouble: {command} wrote a traceback: {told.stderr}"))
        return told

    def write(self, partition: int) -> None:
        """What the source does not have, if the copy takes it."""
        options = {"message.timeout.ms": int(_WRITES * 1000), "log_level": 2}
        producer = Producer({"bootstrap.servers": self._clusters.target.bootstrap, **options})
        with contextlib.suppress(KafkaException):
            for number in range(_OWN):
                producer.produce(self._copy, b"of its own %d" % number, partition=partition)
        producer.flush(2 * _WRITES)

    def undo(self) -> str:
        """It is a copy again, and is copied; why not, if it is not."""
        if self.opened:
            late = self._until("is a copy already", "demote", "--cut", "--yes")
            if late:
                return late
        # Without the mark there is nothing to go on with.
        return self._until("is no copy", "resume") if self.paused else ""

    def _until(self, already: str, command: str, *options: str) -> str:
        until = time.monotonic() + HEALS
        while True:
            told = self.tell(command, *options)
            if told.returncode == 0 or already in told.stderr:
                return ""
            if time.monotonic() > until:
                return f"{command} failed for {HEALS:g} s: {told.stderr}"
            time.sleep(1)

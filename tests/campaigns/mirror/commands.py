"""What an operator says to a copy amid all trouble: pause and resume, open it and have it back.

Any command may fail then, as what it needs is away. When all is healed, each must do what it says.
"""

import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaException, Producer

from harness.penstock.clusters.two_clusters import TwoClusters
from harness.processes.waiting import wait_until

HEALS: Final = 120.0
_COMMAND: Final = 180.0
_WRITES: Final = 5.0
_OWN: Final = 7  # records


class Commands:
    """To one copy, with the first mirror's configuration."""

    def __init__(self, clusters: TwoClusters, copy: str, trouble: Callable[[str], object]) -> None:
        self._clusters, self._copy, self._trouble = clusters, copy, trouble
        self._paused = self._opened = False

    def pause(self) -> None:
        self._paused = True
        self._tell("pause")

    def resume(self) -> None:
        self._tell("resume")

    def open(self, partition: int) -> None:
        """And write what the source does not have, if the copy takes it."""
        self._opened = True
        self._tell("promote", "--without-source")
        options = {"message.timeout.ms": int(_WRITES * 1000), "log_level": 2}
        producer = Producer({"bootstrap.servers": self._clusters.target.bootstrap, **options})
        with suppress(KafkaException):
            for number in range(_OWN):
                producer.produce(self._copy, b"of its own %d" % number, partition=partition)
        producer.flush(2 * _WRITES)

    def close(self) -> None:
        self._tell("demote", "--cut", "--yes")

    def undo(self) -> str:
        """It is a copy again, and is copied; why not, if it is not."""
        late = ""
        if self._opened:
            late = self._until("is already a copy", "demote", "--cut", "--yes")
        if self._paused and not late:
            # Without the mark there is nothing to go on with.
            late = self._until("is not a copy", "resume")
        return late

    def _tell(self, command: str, *options: str) -> "subprocess.CompletedProcess[str]":
        told = self._clusters.mirrors[1].told(command, self._copy, *options, within=_COMMAND)
        if "Traceback" in told.stderr:
            self._trouble(f"{command} wrote a traceback: {told.stderr}")
        return told

    def _until(self, already: str, command: str, *options: str) -> str:
        said = ""

        def is_so() -> bool:
            nonlocal said
            told = self._tell(command, *options)
            said = told.stderr
            return told.returncode == 0 or already in said

        try:
            wait_until(is_so, within=HEALS, every=1)
        except TimeoutError:
            return f"{command} failed for {HEALS:g} s: {said}"
        return ""

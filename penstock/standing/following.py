"""The latest `Standing`, kept by a thread of its own, so that whoever shows it never waits.

The thread is a daemon's and remembers nothing: it can be left behind at any time.
"""

import threading
import time
from typing import Final, Self

from penstock.standing.addresses import Addresses
from penstock.standing.asking import Asking
from penstock.standing.values import Standing

_EVERY_S: Final = 1.0


class Following:
    """Asks every second from when it is entered until it is left. A context."""

    def __init__(self, addresses: Addresses) -> None:
        """ValueError, BadAddress if an address cannot be understood."""
        self._asking = Asking(addresses)
        self._left = threading.Event()
        self._latest: Standing | None = None
        self._thread = threading.Thread(target=self._run, name="standing", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Does not wait for an answer that is outstanding."""
        self._left.set()

    @property
    def latest(self) -> Standing | None:
        """None until everybody was asked once."""
        return self._latest

    def _run(self) -> None:
        with self._asking as asking:
            due = time.monotonic()
            while not self._left.wait(max(0.0, due - time.monotonic())):
                due = time.monotonic() + _EVERY_S
                self._latest = asking.ask()

"""The latest `Standing`, kept by a thread of its own, so that whoever shows it never waits.

The thread is a daemon's and remembers nothing: it can be left behind at any time.
"""

from types import TracebackType
from typing import Self

from penstock.standing.addresses import Addresses
from penstock.standing.values import Standing


class Following:
    """Asks every second from when it is entered until it is left. A context."""

    def __init__(self, addresses: Addresses) -> None:
        self.addresses = addresses
        self.latest: Standing | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Does not wait for an answer that is outstanding."""

"""The parts of a pipeline asked how they stand, each on its own.

Asked side by side, each within a short time: one that is away leaves its part of the `Standing`
empty and a line among its problems. Nothing here raises for what others do or answer.
"""

from types import TracebackType
from typing import Self

from penstock.standing.addresses import Addresses
from penstock.standing.values import Standing


class Asking:
    """Asks again and again, and keeps connections for that. One thread at a time. A context."""

    def __init__(self, addresses: Addresses) -> None:
        self.addresses = addresses

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def ask(self) -> Standing:
        """How everything stands now; takes two seconds and a little at most."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

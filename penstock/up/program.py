"""A program that `penstock up` runs, as a value."""

from collections.abc import Callable
from typing import NamedTuple


class Program(NamedTuple):
    """`needs` are the names of those that must answer before it is started.

    They are also who is told to stop only after it has: the order of stopping is that of starting,
    read backwards.
    """

    name: str
    command: tuple[str, ...]
    address: str  # where it listens, for people; empty if nowhere
    is_ready: Callable[[], bool] | None  # asked in another thread; None: it cannot be asked
    needs: frozenset[str] = frozenset()
    stop_seconds: float = 2.0  # after SIGTERM; then it is killed

"""A program that `penstock up` runs, as a value."""

from collections.abc import Callable
from typing import NamedTuple


class Program(NamedTuple):
    """`needs` are the names of those that must answer before it is started; `uses`, of those that
    it can be without for a while. All of them are told to stop only after it has.

    One that `keeps_open` what it has open loses nothing while it is away, but sees nothing either:
    it is started again at once, and is handed the files that it had.
    """

    name: str
    command: tuple[str, ...]
    address: str  # where it listens, for people; empty if nowhere
    is_ready: Callable[[], bool] | None  # asked in another thread; None: it cannot be asked
    needs: frozenset[str] = frozenset()
    stop_seconds: float = 2.0  # after SIGTERM; then it is killed
    uses: frozenset[str] = frozenset()
    keeps_open: bool = False

"""A program that `penstock up` runs, as values: what it is, and how it stands."""

from collections.abc import Callable
from enum import StrEnum
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


class ProgramPhase(StrEnum):
    """What a program is about."""

    WAITING = "waiting"  # for those that it needs
    STARTING = "starting"
    RUNNING = "running"
    DEAD = "dead"  # and started again at `retry_at`
    STOPPING = "stopping"
    STOPPED = "stopped"


class ProgramStanding(NamedTuple):
    """One program. Times are seconds since 1970."""

    name: str
    phase: ProgramPhase
    address: str  # where it listens, for people; empty if nowhere
    log: str  # the file
    since: float  # when this phase began
    pid: int = 0
    restarts: int = 0  # after deaths
    ended: str = ""  # how it died last, in words: exit code 1, killed by SIGKILL
    last_lines: tuple[str, ...] = ()  # of its log, when it died
    retry_at: float = 0.0

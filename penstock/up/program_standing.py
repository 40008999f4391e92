"""How a program that `penstock up` runs stands, as values for whoever shows it."""

from enum import StrEnum
from typing import NamedTuple


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

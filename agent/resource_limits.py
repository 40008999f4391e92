"""How an agent keeps to `limits.cpu` and `limits.memory_bytes`. Pure: measurements are passed in.

CPU: what the whole process has used is held against what it may use; whoever reads files pauses
until it is within again. Half a second's allowance can be saved up, so that a burst after a quiet
while is not slowed down.

Memory: what grows with the load is what is read and not acknowledged. Nine tenths of the limit are
free to use; above them the bytes in flight shrink in proportion, down to a batch's, and grow back
when there is room. An agent that has given back everything and is above its limit still says so
and goes on: to stop would lose what rotated files still hold.
"""

import os
import resource
from pathlib import Path
from typing import Final

import msgspec

_SAVED_UP_SECONDS: Final = 0.5
_SHORTEST_PAUSE: Final = 0.001  # a shorter one costs more than it saves
_LONGEST_PAUSE: Final = 1.0
_FREE_TO_USE: Final = 0.9
_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class CpuAllowance:
    """`limits.cpu` cores, 0 for no limit. Belongs to the thread that pauses."""

    def __init__(self, cores: float, now: float, used: float) -> None:
        self._cores = cores
        self._at = now
        self._used = used
        self._saved = cores * _SAVED_UP_SECONDS

    def pause(self, now: float, used: float) -> float:
        """For how long to do nothing: `used` are the CPU seconds of the process up to now."""
        if self._cores <= 0:
            return 0.0
        earned = max(0.0, now - self._at) * self._cores
        saved = self._saved + earned - max(0.0, used - self._used)
        self._at, self._used = now, used
        self._saved = min(saved, self._cores * _SAVED_UP_SECONDS)
        pause = -self._saved / self._cores
        return min(_LONGEST_PAUSE, pause) if pause >= _SHORTEST_PAUSE else 0.0


class MemoryAllowance(msgspec.Struct, frozen=True):
    """How many bytes may be in flight now; `exceeded` if less than that could not help."""

    in_flight: int
    exceeded: bool = False


def memory_allowance(
    resident: int, limit: int, *, in_flight_limit: int, batch_bytes: int
) -> MemoryAllowance:
    """`resident` is what the process has; `limit` is 0 where there is none."""
    least = min(in_flight_limit, 2 * batch_bytes)
    free = limit * _FREE_TO_USE
    if not limit or resident <= free:
        return MemoryAllowance(in_flight_limit)
    part = max(0.0, (limit - resident) / (limit - free))
    return MemoryAllowance(max(least, int(in_flight_limit * part)), exceeded=resident > limit)


def resident_bytes() -> int:
    """What this process has in memory."""
    return int(_STATM.read_text().split()[1]) * _PAGE_BYTES


def cpu_seconds() -> float:
    """What this process has computed, in all its threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime

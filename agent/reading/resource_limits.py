"""Enforces `limits.cpu` and `limits.memory_bytes`. Pure: measurements are passed in.

CPU: while the process has used more than it may, the thread that reads files pauses. Half a second
of unused time can be saved, so that a burst after a quiet time is not slowed down.

Memory: the bytes read but not acknowledged grow with the load. Above nine tenths of the limit, the
allowed bytes in flight shrink in proportion, down to two batches, and grow back when there is room.
An agent above its limit that cannot shrink further logs that and continues: stopping would lose
what rotated files still have.
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
    """The CPU time allowed by `limits.cpu`, in cores; 0 for no limit. Belongs to the thread that
    pauses."""

    def __init__(self, cores: float, now: float, used: float) -> None:
        self._cores = cores
        self._at = now
        self._used = used
        self._saved = cores * _SAVED_UP_SECONDS

    def pause(self, now: float, used: float) -> float:
        """The seconds to pause. `used` is the CPU time of the process so far."""
        if self._cores <= 0:
            return 0.0
        earned_seconds = max(0.0, now - self._at) * self._cores
        saved_seconds = self._saved + earned_seconds - max(0.0, used - self._used)
        self._at, self._used = now, used
        self._saved = min(saved_seconds, self._cores * _SAVED_UP_SECONDS)
        pause = -self._saved / self._cores
        return min(_LONGEST_PAUSE, pause) if pause >= _SHORTEST_PAUSE else 0.0


class MemoryAllowance(msgspec.Struct, frozen=True):
    """The number of bytes that may be in flight; `exceeded`: the process is above its limit."""

    in_flight: int
    exceeded: bool = False


def memory_allowance(
    resident: int, limit: int, *, in_flight_limit: int, batch_bytes: int
) -> MemoryAllowance:
    """The allowance for a process of `resident` bytes; `limit` is 0 if there is none."""
    least_bytes = min(in_flight_limit, 2 * batch_bytes)
    free_bytes = limit * _FREE_TO_USE
    if not limit or resident <= free_bytes:
        return MemoryAllowance(in_flight_limit)
    part = max(0.0, (limit - resident) / (limit - free_bytes))
    return MemoryAllowance(max(least_bytes, int(in_flight_limit * part)), exceeded=resident > limit)


def resident_bytes() -> int:
    return int(_STATM.read_text().split()[1]) * _PAGE_BYTES


def cpu_seconds() -> float:
    """The CPU time of this process, in all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime

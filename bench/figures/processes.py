"""What a process costs: processor time and memory, read from `/proc`.

A process stands for itself, all its threads and all its living descendants. Nothing is sampled in
the background: the two cores belong to the broker and its clients.
"""

import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
_RESET_PEAK = "5"  # proc(5), clear_refs: the peak resident size becomes the current one


def tree(pid: int) -> list[int]:
    """The process and its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            for child in (task / "children").read_text().split():
                found += tree(int(child))
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads, living and ended."""
    # The command's name is in parentheses and may hold spaces: count from its end.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def cpu_seconds_with_ended(pid: int) -> float:
    """Of a process, its descendants, and those of them that have ended."""
    total = 0
    for each in tree(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            total += sum(int(field) for field in fields[11:15])
    return total / _TICKS


def cpu_nanoseconds(pid: int) -> int:
    """Of its threads that live: for those who use little, where a tick is much."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads)


def _kilobytes(path: Path, key: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    raise LookupError(f"no {key} in {path}")


def resident_bytes(pid: int) -> int:
    return sum(map(resident_bytes_of, tree(pid)))


def resident_bytes_of(pid: int) -> int:
    """Of this process alone."""
    return _kilobytes(Path(f"/proc/{pid}/status"), "VmRSS:") * 1024


def peak_bytes(pid: int) -> int:
    """The largest resident size since the last `reset_peak`."""
    return sum(_kilobytes(Path(f"/proc/{each}/status"), "VmHWM:") for each in tree(pid)) * 1024


def proportional_bytes(pid: int) -> int:
    """Resident memory, with shared pages divided among those who share them."""
    return sum(map(proportional_bytes_of, tree(pid)))


def proportional_bytes_of(pid: int) -> int:
    """Of this process alone."""
    return _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") * 1024


def reset_peak(pid: int) -> None:
    for each in tree(pid):
        try:
            Path(f"/proc/{each}/clear_refs").write_text(_RESET_PEAK)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        except PermissionError:
            if "VmHWM:" in Path(f"/proc/{each}/status").read_text():
                raise  # else it is just ending: it has no memory, and its files are root's


def own_cpu_seconds() -> float:
    """Of this process and of the children that it has waited for: the load generators."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Meter:
    """What a broker, or several, spent, and what the clients spent, inside a `with` block."""

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        self.broker_cpu = 0.0
        self.client_cpu = 0.0
        self.peak_bytes = 0
        self.proportional_bytes = 0

    def _total(self) -> float:
        return sum(cpu_seconds(each) for pid in self._pids for each in tree(pid))

    def __enter__(self) -> Self:
        for pid in self._pids:
            reset_peak(pid)
        self.broker_cpu, self.client_cpu = -self._total(), -own_cpu_seconds()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.broker_cpu += self._total()
            self.client_cpu += own_cpu_seconds()
            self.peak_bytes = sum(map(peak_bytes, self._pids))
            self.proportional_bytes = sum(map(proportional_bytes, self._pids))

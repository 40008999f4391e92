"""Processor time and memory of processes, read from `/proc`.

A process includes its threads and its living descendants. Nothing is sampled in the background: the
two cores belong to the broker and its clients.
"""

import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
_RESET_PEAK = "5"  # proc(5), clear_refs: the peak resident size becomes the current one


def tree(pid: int) -> list[int]:
    """Returns the ids of a process and all its descendants."""
    pids = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread ended
            for child in (task / "children").read_text().split():
                pids += tree(int(child))
    return pids


def cpu_seconds(pid: int) -> float:
    """Returns the user and system time of all threads, both running and ended."""
    # The command's name may contain spaces and parentheses.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def cpu_seconds_with_ended(pid: int) -> float:
    """Returns the time of a process and its descendants, including their children that have
    ended."""
    total = 0
    for process in tree(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            total += sum(int(field) for field in fields[11:15])
    return total / _TICKS


def cpu_nanoseconds(pid: int) -> int:
    """Returns the time of the running threads, for amounts so small that ticks are too coarse."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)


def _kilobytes(path: Path, key: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    raise LookupError(f"no {key} in {path}")


def resident_bytes(pid: int) -> int:
    return sum(map(resident_bytes_of, tree(pid)))


def resident_bytes_of(pid: int) -> int:
    """Returns the resident memory of one process, without its descendants."""
    return _kilobytes(Path(f"/proc/{pid}/status"), "VmRSS:") * 1024


def peak_bytes(pid: int) -> int:
    """Returns the largest resident size since the last `reset_peak`."""
    return (
        sum(_kilobytes(Path(f"/proc/{process}/status"), "VmHWM:") for process in tree(pid)) * 1024
    )


def peak_bytes_of(pid: int) -> int:
    """Returns the peak of one process, without its descendants."""
    return _kilobytes(Path(f"/proc/{pid}/status"), "VmHWM:") * 1024


def proportional_bytes(pid: int) -> int:
    """Returns the resident memory, with shared pages divided among the processes that share
    them."""
    return sum(map(proportional_bytes_of, tree(pid)))


def proportional_bytes_of(pid: int) -> int:
    """Returns the proportional memory of one process, without its descendants."""
    return _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") * 1024


def reset_peak(pid: int) -> None:
    for process in tree(pid):
        try:
            Path(f"/proc/{process}/clear_refs").write_text(_RESET_PEAK)
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process ended
        except PermissionError:
            if "VmHWM:" in Path(f"/proc/{process}/status").read_text():
                raise  # otherwise it is ending: without memory, and its files belong to root


def own_cpu_seconds() -> float:
    """Returns the time of this process and its reaped children, which are the load generators."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Meter:
    """Measures the costs of brokers and clients inside a `with` block."""

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        self.broker_cpu = 0.0
        self.client_cpu = 0.0
        self.peak_bytes = 0
        self.proportional_bytes = 0

    def _total(self) -> float:
        return sum(cpu_seconds(process) for pid in self._pids for process in tree(pid))

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

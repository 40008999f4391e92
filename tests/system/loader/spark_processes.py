"""Processes of Spark's: JVMs, and the Python workers that run tasks."""

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path

_OF_TASKS = b"pyspark.daemon\0pyspark.worker\0"  # planning has workers of another module


def children(pid: int) -> list[int]:
    """The child processes; none of a process that has ended."""
    pids = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                pids += [int(number) for number in (thread / "children").read_text().split()]
    return pids


def python_workers(executors: Iterable[int]) -> list[int]:
    """What the executors' Python daemons have forked for tasks."""
    daemons = [child for executor in executors for child in children(executor)]
    return [worker for daemon in daemons if _runs_tasks(daemon) for worker in children(daemon)]


def jvms(pid: int) -> list[int]:
    """The JVMs that a driver has started."""
    return [
        child for child in children(pid) if _command(child).partition(b"\0")[0].endswith(b"java")
    ]


def is_running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def kill_all(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _runs_tasks(pid: int) -> bool:
    return _OF_TASKS in _command(pid)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""

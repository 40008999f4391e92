"""Stops a process reliably: SIGSTOP takes effect some time after it was sent; on a busy machine a
thread may still run for a moment.
"""

import os
import signal
import time
from pathlib import Path
from typing import Final

_WITHIN: Final = 30.0
_EVERY: Final = 0.001
_STOPPED: Final = frozenset("TtZX")


def freeze(pid: int) -> None:
    """Freezes a process; returns once none of its threads is running. SIGCONT resumes it."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + _WITHIN
    while not _states(pid) <= _STOPPED:
        assert time.monotonic() < deadline, f"process {pid} does not stop: {_states(pid)}"
        time.sleep(_EVERY)


def _states(pid: int) -> set[str]:
    """The states of its threads; empty if it is gone."""
    states = set()
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            states.add(stat.read_text().rpartition(")")[2].split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue  # this thread has ended
    return states

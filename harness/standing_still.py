"""A process that is stopped, and is known to be: SIGSTOP takes effect some time after it was sent,
on a busy machine after a thread has looked at a file once more."""

import os
import signal
import time
from pathlib import Path
from typing import Final

_WITHIN: Final = 30.0
_EVERY: Final = 0.001
_STOPPED: Final = frozenset("TtZX")


def freeze(pid: int) -> None:
    """Returns when none of its threads runs any more; until SIGCONT."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + _WITHIN
    while not _states(pid) <= _STOPPED:
        assert time.monotonic() < deadline, f"process {pid} does not stop: {_states(pid)}"
        time.sleep(_EVERY)


def _states(pid: int) -> set[str]:
    """Of its threads; of none if it is gone."""
    found = set()
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            found.add(stat.read_text().rpartition(")")[2].split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue  # this thread has ended
    return found

"""`penstock load` that stops before one of its steps, to be killed or continued there:

    python -m tests.system.loader.stopped_load FILE STEP NUMBER load --config loader.yaml

A step is a change to a file of the store, a message to the brokers, or a Spark job, such as
`load: create _penstock/*/manifest-*.json`. The word before the colon tells what has begun: before
the job that lands rows, the load completes a `former` one; with the job that merges the files of
hours, it begins to `close` them. Each step is a line of FILE, written before it happens. Before
STEP happens for the NUMBER-th time, the process stops as by SIGSTOP, while its JVM and its
executors go on. With an empty STEP it only writes the steps down.

The interpreter itself reports the calls (`threading.setprofile`): the program is the one that users
run.
"""

import os
import re
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final

from penstock.command_line import main

TASKS: Final = "some tasks have ended"
_STORES: Final = ("HadoopStore", "LocalStore")
_CHANGES: Final = ("create", "replace", "write", "rename", "delete")
_STEPS: Final = {
    **{f"{store}.{change}": change for store in _STORES for change in _CHANGES},
    **{f"{store}.delete_files": "delete" for store in _STORES},
    "SparkWork.land": "land",
    "SparkWork.count_rows": "count rows",
    "SparkWork.rewrite_hours": "merge",
    "TableReading._advanced.<locals>.advanced": TASKS,
    "write_entries": "write to the ledger",
    "commit_offsets": "commit offsets",
}
_PHASES: Final = {"land": "load", "merge": "close"}
# What differs between runs: the table's name, random names, numbers.
_VARIABLE: Final = re.compile(
    r"topic-[0-9a-f]{12}|[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4,12}){4}|\d+"
)


class Stop:
    """The profile function of all threads but the main one."""

    def __init__(self, file: Path, step: str, number: int) -> None:
        self._file = file
        self._step = step
        self._left = number
        self._phase = "former"
        self._lock = threading.Lock()

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or (name := _STEPS.get(frame.f_code.co_qualname)) is None:
            return
        if step := step_of(name, frame.f_locals):
            with self._lock:
                self._reach(step)

    def _reach(self, name: str) -> None:
        self._phase = _PHASES.get(name, self._phase)
        step = f"{self._phase}: {name}"
        with self._file.open("a") as file:
            file.write(f"{step}\n")
        if step == self._step:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGSTOP)


def step_of(name: str, arguments: Mapping[str, Any]) -> str:
    """The step by the call's name and arguments; empty if the call changes nothing."""
    if name == TASKS:
        return name * bool(arguments["tasks"])
    if "paths" in arguments:
        return f"{name} {_kind(arguments['paths'][0])}" if arguments["paths"] else ""
    path = arguments.get("source", arguments.get("path", ""))
    return f"{name} {_kind(path)}" if path else name


def _kind(path: str) -> str:
    """The path, without what differs between runs."""
    return _VARIABLE.sub("*", path)


if __name__ == "__main__":
    path, wanted, times, *sys.argv[1:] = sys.argv[1:]
    stop = Stop(Path(path), wanted, int(times))
    threading.setprofile(stop.profile)  # loads run on threads of their own
    main()

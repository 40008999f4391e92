"""Another time for whole trees of processes: clock.c, compiled and preloaded.

A `Clock` is one such time: how far it is ahead, in a file that the processes map. libfaketime does
not serve: with the C library of Debian 12, the times of files stay what they are, and to sleep is
an invalid argument.
"""

import os
import shutil
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "PENSTOCK_CLOCK"
SOURCE: Final = Path(__file__).with_name("clock.c")
_NUMBERS: Final = struct.Struct("@qqq")  # as in clock.c
_NANOS: Final = 1_000_000_000


class NoCompiler(Exception):
    """There is no C compiler here."""


def compile_clock(directory: Path) -> Path:
    """The shared library, made in `directory`."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise NoCompiler("no C compiler (cc) is installed: apt install gcc libc6-dev")
    library = directory / "clock.so"
    options = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(library)]
    subprocess.run([compiler, *options, str(SOURCE), "-ldl"], check=True)
    return library


class Clock:
    """A wall clock that can be put to another time, also while processes go by it."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def ahead(self) -> float:
        """Seconds."""
        nanos, _, _ = _NUMBERS.unpack(self.file.read_bytes())
        return float(nanos / _NANOS)

    def be_ahead(self, seconds: float) -> None:
        """The times of all files move with it."""
        self._write(_NUMBERS.pack(round(seconds * _NANOS), 0, 0))

    def be_set_by(self, seconds: float) -> None:
        """Sets it as `date -s` does: what is written already keeps its times. Only the last time
        counts."""
        own, ahead = own_clock(), round(self.ahead() * _NANOS)
        kernels_ns = time.time_ns() - round((own.ahead() if own else 0.0) * _NANOS)
        self._write(_NUMBERS.pack(ahead + round(seconds * _NANOS), ahead, kernels_ns))

    def _write(self, numbers: bytes) -> None:
        # In place: processes have mapped this very file.
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT, 0o600)
        os.pwrite(descriptor, numbers, 0)
        os.close(descriptor)

    def put_to(self, moment: float) -> None:
        """The moment is now, for a process that goes by this clock."""
        self.be_ahead(self.ahead() + moment - time.time())


def own_clock() -> Clock | None:
    """The one that this process goes by, if it is not the kernel's."""
    file = os.environ.get(VARIABLE)
    return Clock(Path(file)) if file else None


def environment(library: Path, clock: Clock, environ: Mapping[str, str]) -> dict[str, str]:
    """For a process that goes by that clock; its children do as well."""
    preloaded = filter(None, [str(library), environ.get("LD_PRELOAD")])
    return {"LD_PRELOAD": ":".join(preloaded), VARIABLE: str(clock.file)}

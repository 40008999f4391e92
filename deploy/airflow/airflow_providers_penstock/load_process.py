"""A load as a child process: its log by line, its report at the end.

It is ended by SIGTERM, after which a load begins no further step, and by SIGKILL if it takes too
long. Neither harms anything: what was not committed is read again by the next load.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_TETHER: Final = Path(__file__).with_name("tether.py")
_OF_AIRFLOWS_PYTHON: Final = {"PYTHONHOME", "PYTHONPATH"}  # the load has a Python of its own
_MOST_LETTERS: Final = 10_000  # of a line
_MOST_BYTES: Final = 64 * 1024 * 1024  # of the report


def load_command(executable: str, config: str, tables: Sequence[str]) -> list[str]:
    """The command of a load. Names are arguments, which no shell reads. Raises ValueError."""
    if not executable.startswith("/"):
        raise ValueError(f"executable {executable!r} must be an absolute path")
    for table in tables:
        if not table.strip() or "," in table:
            raise ValueError(f"table {table!r} is not a name or pattern: pass each one by itself")
    names = [f"--topics={table}" for table in tables]
    return [executable, "load", f"--config={config}", "--json", *names]


class LoadProcess:
    """Runs once. May be ended by a signal handler while it runs."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        tether = [sys.executable, "-I", "-S", str(_TETHER), str(os.getpid())]
        inherited = {
            name: value for name, value in os.environ.items() if name not in _OF_AIRFLOWS_PYTHON
        }
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  closed by `run`
        self._process = subprocess.Popen(
            [*tether, *command],
            env={**inherited, **environment},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._is_ending = False

    def run(self, log: Callable[[str], None], patience: float) -> tuple[int, bytes]:
        """Returns the exit code and the report. `log` gets each line of the log. If that or a
        timeout of the task raises, the load is ended first, for which it has `patience` seconds."""
        stderr = self._process.stderr
        assert stderr is not None
        try:
            for line in iter(lambda: stderr.readline(_MOST_LETTERS), b""):
                log(line.decode("utf-8", errors="backslashreplace").rstrip("\n"))
            code = self._process.wait()
            self._output.seek(0)
            return code, self._output.read(_MOST_BYTES)
        except BaseException:
            self.end()
            try:
                self._process.communicate(timeout=patience)
            except subprocess.TimeoutExpired:
                self._kill()
            raise
        finally:
            stderr.close()
            self._output.close()

    def end(self) -> None:
        """Sends SIGTERM, once: a second one would end the load at once."""
        if not self._is_ending and self._process.poll() is None:
            self._is_ending = True
            self._process.terminate()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

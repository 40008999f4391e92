"""Runs one program as a child of this process.

It ends with this process, even after SIGKILL (see cluster/zookeeper_server/tether.py), and depends
on the thread that started it, which must be the main one. It has a session of its own, so that
Ctrl-C in the terminal reaches only this process, which stops programs in order, and so that its own
children are killed with it.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cluster.zookeeper_server import tether
from penstock.directory.log_files import open_log
from penstock.up import descriptor_handover


class Child:
    """A started program. Raises OSError if it cannot be started."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        open_files: Mapping[str, int] | None = None,
    ) -> None:
        """`environment` is added to this process's; `open_files` are passed on by name, and stay
        open here."""
        names_and_fds = sorted((open_files or {}).items(), key=lambda item: item[1])
        fds = [fd for _, fd in names_and_fds]
        variables = dict(environment or {})
        if fds:
            variables["LISTEN_FDNAMES"] = ":".join(name for name, _ in names_and_fds)
            command = [*_script(descriptor_handover.__file__), ",".join(map(str, fds)), *command]
        output = open_log(log)
        try:
            self._process = subprocess.Popen(
                [*_script(tether.__file__), str(os.getpid()), *command],
                cwd=directory,
                env={**os.environ, **variables},
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        finally:
            os.close(output)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> str:
        """Returns the exit code or signal, in words; empty while the program is running."""
        code = self._process.poll()
        if code is None:
            return ""
        if code >= 0:
            return f"exit code {code}"
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"

    def terminate(self) -> None:
        self._process.terminate()

    def crash(self) -> None:
        """Kills the process, but not the processes that it has started."""
        self._process.kill()

    def kill(self) -> None:
        """Kills the process together with its process group."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def _script(path: str) -> tuple[str, ...]:
    return sys.executable, "-I", "-S", path

"""Commands of `penstock` in processes that have imported already what they need.

Each command has a process of its own, with streams, an environment, a folder and an exit code of
its own, as a user's has. It is forked from one that has imported every command and waits
(forking.py): a few hundredths of a second instead of half a second.

A call is a connection to that process: the three streams as descriptors, then arguments,
environment and folder as JSON. The process id comes back, and the exit code when it has ended.
This module imports little: shells of the documentation's tests call `penstock` like that.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
_NUMBER = 4
_SECONDS_TO_DIE = 60.0


def receive(channel: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = channel.recv(size - len(received))
        if not piece:
            raise ConnectionError("the other side has ended")
        received += piece
    return received


def receive_number(channel: socket.socket) -> int:
    return int.from_bytes(receive(channel, _NUMBER), "big", signed=True)


def send_number(channel: socket.socket, number: int) -> None:
    channel.sendall(number.to_bytes(_NUMBER, "big", signed=True))


class Call:
    """One command, which runs from now on. Whoever has opened the streams closes them."""

    def __init__(
        self,
        address: str,
        arguments: Sequence[str],
        streams: Sequence[int],
        *,
        environment: Mapping[str, str],
        folder: str,
    ) -> None:
        self.returncode: int | None = None
        self._channel = socket.socket(socket.AF_UNIX)
        try:
            self._channel.connect(address)
            asked = json.dumps([arguments, dict(environment), folder]).encode()
            size = len(asked).to_bytes(_NUMBER, "big")
            socket.send_fds(self._channel, [size], list(streams))
            self._channel.sendall(asked)
            self.pid = receive_number(self._channel)
        except BaseException:
            self._channel.close()
            raise

    def wait(self, within: float | None = None) -> int:
        """Its exit code; of one that a signal has ended, the signal's number below zero."""
        if self.returncode is None:
            self._channel.settimeout(within)
            self.returncode = receive_number(self._channel)
            self._channel.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends it, if it still runs."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                self.send_signal(signal.SIGKILL)
            self.wait(_SECONDS_TO_DIE)


class Forks:
    """The process that waits: started when it is first needed."""

    def __init__(self, interpreter: Sequence[str]) -> None:
        self._interpreter = interpreter
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""

    @property
    def address(self) -> str:
        if self._process is None:
            self._start()
        return self._address

    def call(self, arguments: Sequence[str], streams: Sequence[int], **environment: str) -> Call:
        """A command in the repository, with this environment over the one of the tests."""
        return Call(
            self.address,
            arguments,
            streams,
            environment={**os.environ, **environment},
            folder=str(REPOSITORY),
        )

    def write_command(self, path: Path) -> None:
        """A `penstock` for shells, which runs as a call."""
        lines = (
            f"#!{sys.executable} -IS",
            f"import os, sys; sys.path.insert(0, {str(Path(__file__).parent)!r})",
            "from forked import Call",
            f"call = Call({self.address!r}, sys.argv[1:], (0, 1, 2), environment=os.environ,",
            "            folder=os.getcwd())",
            "sys.exit(call.wait() % 256)",
        )
        path.write_text("\n".join(lines) + "\n")
        path.chmod(0o755)

    def close(self) -> None:
        """Ends it, and commands that still run."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _start(self) -> None:
        self._address = f"\0penstock-{uuid.uuid4().hex}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self._address)
            listener.listen()
            self._process = subprocess.Popen(
                [*self._interpreter, "-m", "tests.penstock.forking", str(listener.fileno())],
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )

"""Commands of `penstock` in processes that have imported already what they need.

Each command has a process of its own, with streams, an environment and an exit code of its own, as
a user's has. It is forked from one that has imported every command and waits: a few hundredths of a
second instead of half a second. What is asked goes to it through a socket: the three streams as
descriptors, then arguments and environment as JSON. Its answer is the exit code.
"""

import atexit
import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path

from penstock.cli.lazy_group import Lazy, LazyGroup
from penstock.command_line import main, penstock

REPOSITORY = Path(__file__).resolve().parent.parent.parent
WITHIN = 90.0
_NUMBER = 4
_STREAMS = (0, 1, 2)


class Forks:
    """The process that waits: started when it is first needed."""

    def __init__(self, interpreter: Sequence[str]) -> None:
        self._interpreter = interpreter
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket

    def run(self, arguments: Sequence[str], stdin: str) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        if self._process is None:
            self._start()
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            files[0].write(stdin.encode())
            files[0].seek(0)
            asked = json.dumps([arguments, dict(os.environ)]).encode()
            try:
                size = len(asked).to_bytes(_NUMBER, "big")
                socket.send_fds(self._channel, [size], [each.fileno() for each in files])
                self._channel.sendall(asked)
                code = int.from_bytes(_receive(self._channel, _NUMBER), "big", signed=True)
            except BaseException:
                self._kill()
                raise
            said = []
            for each in files[1:]:
                each.seek(0)
                said.append(each.read().decode())
        return subprocess.CompletedProcess(list(arguments), code, *said)

    def close(self) -> None:
        if self._process is not None:
            self._channel.close()
            self._process.wait()
            self._process = None

    def _start(self) -> None:
        self._channel, theirs = socket.socketpair()
        self._channel.settimeout(WITHIN)
        with theirs:
            self._process = subprocess.Popen(
                [*self._interpreter, "-m", "tests.penstock.forked", str(theirs.fileno())],
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def _kill(self) -> None:
        """And the command that runs."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self.close()


def _receive(channel: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = channel.recv(size - len(received))
        if not piece:
            raise ConnectionError("the other side has ended")
        received += piece
    return received


def _import(table: Mapping[str, Lazy]) -> None:
    """All of its commands, as far as what they need is there."""
    for lazy in table.values():
        with contextlib.suppress(ModuleNotFoundError):
            command = lazy.command()
            if isinstance(command, LazyGroup):
                _import(command.table)


def _serve(channel: socket.socket) -> bool:
    """Whether this is a command's process now, and not the one that waits."""
    while True:
        size, descriptors, _, _ = socket.recv_fds(channel, _NUMBER, 3)
        if not size:
            return False
        arguments, environment = json.loads(_receive(channel, int.from_bytes(size, "big")))
        child = os.fork()
        if child == 0:
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
            os.environ.clear()
            os.environ.update(environment)
            sys.argv = ["penstock", *arguments]
        for descriptor in descriptors:
            os.close(descriptor)
        if child == 0:
            return True
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        channel.sendall(code.to_bytes(_NUMBER, "big", signed=True))


def _leave(code: int) -> None:
    """As an interpreter ends, but for taking apart what was imported: each command would have to
    copy all of it only for that. What a command has left open is found all the same, and told."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()
    for each in filter(is_left_open, gc.get_objects()):
        print(f"left open: {each!r}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def is_left_open(each: object) -> bool:
    """Something that the end of an interpreter would warn of: not the three streams."""
    if isinstance(each, FileIO):
        return not each.closed and each.closefd and each.fileno() > _STREAMS[-1]
    return isinstance(each, socket.socket) and each.fileno() >= 0


if __name__ == "__main__":
    _import(penstock.table)
    gc.freeze()  # What is there already need not be looked through by each command when it ends.
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        is_command = _serve(channel)
    if is_command:
        code: object = None
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        if not isinstance(code, int | None):
            sys.exit(code)  # type: ignore[arg-type]
        _leave(code or 0)

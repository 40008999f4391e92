"""The process that commands are forked from: it imports all of them, and waits for calls.

A call has a process that waits for its command, and the command one of its own. It ends when its
stdin does, which is when the tests have ended.
"""

import atexit
import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from io import FileIO

from penstock.cli.lazy_group import Lazy, LazyGroup
from penstock.command_line import main, penstock
from tests.penstock.forked import receive, send_number

_STREAMS = (0, 1, 2)


def _import(table: Mapping[str, Lazy]) -> None:
    """All of its commands, as far as what they need is there."""
    for lazy in table.values():
        with contextlib.suppress(ModuleNotFoundError):
            command = lazy.command()
            if isinstance(command, LazyGroup):
                _import(command.table)


def _serve(listener: socket.socket) -> bool:
    """Whether this is a command's process now, and not the one that waits."""
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return False
        channel, _ = listener.accept()
        with channel:
            if os.fork() == 0:
                return _becomes_a_command(channel)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass


def _becomes_a_command(channel: socket.socket) -> bool:
    size, descriptors, _, _ = socket.recv_fds(channel, 4, len(_STREAMS))
    arguments, environment, folder = json.loads(receive(channel, int.from_bytes(size, "big")))
    child = os.fork()
    if child == 0:
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        _open_streams()
        # Where the tests run in the background, Ctrl-C is ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["penstock", *arguments]
    for descriptor in descriptors:
        os.close(descriptor)
    if child != 0:
        with contextlib.suppress(BrokenPipeError):  # whoever called may have gone
            send_number(channel, child)
            _, status = os.waitpid(child, 0)
            send_number(channel, os.waitstatus_to_exitcode(status))
        os._exit(0)
    return True


def _open_streams() -> None:
    """Anew: whether one can be sought in, or is a terminal, is asked when it is opened."""
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


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
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        is_command = _serve(listener)
    if is_command:
        code: object = None
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        if not isinstance(code, int | None):
            sys.exit(code)  # type: ignore[arg-type]
        _leave(code or 0)

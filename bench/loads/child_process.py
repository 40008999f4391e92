"""Child processes of load generators, so that load and measurement do not wait for each other."""

import contextlib
import multiprocessing
import resource
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import TypeVar

Message = TypeVar("Message")


@contextlib.contextmanager
def child_process(
    serve: Callable[..., None], *arguments: object, patience: float = 0.0
) -> Iterator[Connection]:
    """Runs `serve(*arguments, pipe)` in a new process; yields the other end of the pipe.

    At the end the pipe is closed, and the process is killed after `patience` seconds.
    """
    pipe, child_pipe = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(*arguments, child_pipe), daemon=True
    )
    process.start()
    child_pipe.close()
    try:
        yield pipe
    finally:
        pipe.close()
        process.join(patience)
        process.kill()
        process.join()


def receive(pipe: Connection, kind: type[Message]) -> Message:
    """Returns the next message, or raises it if it is an exception."""
    message = pipe.recv()
    if isinstance(message, Exception):
        raise message
    assert isinstance(message, kind)
    return message


def allow_most_open_files() -> None:
    """Raises this process's limit on open files to its maximum; child processes inherit it."""
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))

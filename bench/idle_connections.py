"""Connections that have introduced themselves (ApiVersions) and then say nothing.

A process of its own holds them, so that the descriptors and the memory are not the generator's.
"""

import contextlib
import multiprocessing
import resource
import socket
from collections.abc import Iterator
from multiprocessing.connection import Connection

from bench.requests import api_versions_request

_PATIENCE = 60.0


def _hold(port: int, count: int, pipe: Connection) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    request = api_versions_request()
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.settimeout(_PATIENCE)
            connection.sendall(request)
            if not connection.recv(2**16):
                raise ConnectionError("the broker refused a connection")
        pipe.send(count)
        pipe.recv()


@contextlib.contextmanager
def idle_connections(port: int, count: int) -> Iterator[None]:
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    holder = context.Process(target=_hold, args=(port, count, theirs), daemon=True)
    holder.start()
    theirs.close()
    try:
        ours.recv()
        yield
        ours.send(None)
    finally:
        ours.close()
        holder.join(_PATIENCE)
        holder.kill()

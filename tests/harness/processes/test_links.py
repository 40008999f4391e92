"""Links that are cut, reset and slowed, between sockets of this very process."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from harness.processes.links import Link, Links, owner_of
from harness.processes.server_process import free_ports


@pytest.fixture
def links() -> Iterator[Links]:
    with Links() as links:
        yield links


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that says everything again."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []
    connections: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(65536):
                connection.sendall(data)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connections.append(connection)
            threads.append(threading.Thread(target=serve, args=(connection,)))
            threads[-1].start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield listener.getsockname()
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


@pytest.fixture
def link(links: Links, echo: tuple[str, int]) -> Link:
    (port,) = free_ports(1)
    return links.add(echo, port)


def connect(link: Link) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", link.port), timeout=30)
    connection.settimeout(30)
    return connection


def says(connection: socket.socket, words: bytes) -> bytes:
    connection.sendall(words)
    return connection.recv(100)


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(0.3)
    try:
        connection.recv(100)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(30)
    return False


def test_what_is_cut_is_late_and_not_lost(link: Link) -> None:
    with connect(link) as connection:
        assert says(connection, b"before") == b"before"
        link.cut()
        connection.sendall(b"meanwhile")
        assert is_silent(connection)
        with connect(link) as new:
            new.sendall(b"new")
            assert is_silent(new)
            link.mend()
            assert connection.recv(100) == b"meanwhile"
            assert new.recv(100) == b"new"


def test_what_is_reset_ends_and_nobody_gets_in(link: Link) -> None:
    with connect(link) as connection:
        assert says(connection, b"before") == b"before"
        link.reset()
        with pytest.raises(ConnectionError):
            ended(connection)
    with pytest.raises(ConnectionError), connect(link) as new:  # by now, or a moment later
        ended(new)
    link.mend()
    with connect(link) as again:
        assert says(again, b"after") == b"after"


def ended(connection: socket.socket) -> None:
    if connection.recv(100) == b"":
        raise ConnectionError("closed")


def test_what_is_slow_arrives_later(link: Link) -> None:
    link.slow(0.2)
    with connect(link) as connection:
        began = time.monotonic()
        assert says(connection, b"slowly") == b"slowly"
        assert time.monotonic() - began >= 0.4  # there and back


def test_one_pair_is_cut_and_others_are_not(links: Links, echo: tuple[str, int]) -> None:
    """By whose socket it is that comes."""
    here, (port,) = {"this": os.getpid()}, free_ports(1)
    link = links.add(echo, port, lambda peer: owner_of(peer, here))
    with connect(link) as connection:
        assert says(connection, b"before") == b"before"
        link.cut("another")
        assert says(connection, b"still") == b"still"
        link.cut("this")
        connection.sendall(b"meanwhile")
        assert is_silent(connection)
        program = (
            "import socket, sys\n"
            "s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=30)\n"
            "s.sendall(b'child')\n"
            "sys.exit(s.recv(10) != b'child')"
        )
        assert (
            subprocess.run([sys.executable, "-c", program, str(port)], check=False).returncode == 0
        )

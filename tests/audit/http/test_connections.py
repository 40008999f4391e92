"""Clients that say nothing, that talk nonsense, that do not listen, that stay for ever."""

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from audit.http.server import HEAD_SECONDS
from audit.http.stream import MOST_OF_ONE, MOST_STREAMS
from harness.penstock.audit import AuditProcess
from harness.processes.waiting import wait_until


@contextlib.contextmanager
def connected(audit: AuditProcess, timeout: float = 20) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", audit.port), timeout=timeout) as connection:
        yield connection


def request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: audit\r\n\r\n".encode()


def listen(connection: socket.socket) -> bytes:
    """Until it is closed."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while received := connection.recv(65_536):
            found += received
    return found


@pytest.mark.parametrize(
    "said",
    [
        b"\0\1\2\3\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"GET / HTTP/1.1\r\nNo colon\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200 + b"\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /healthz HTTP/1.1\nHost: a\n\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nB: c\r\n d\r\n\r\n",
        b"GET /nothing HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\n",
    ],
)
def test_nonsense_is_refused(audit: AuditProcess, said: bytes) -> None:
    with connected(audit) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(said)
        assert listen(connection)[:12] in {b"HTTP/1.1 400", b""}
    assert audit.ask("/healthz").status == 200


def test_a_second_request_is_read_as_strictly(audit: AuditProcess) -> None:
    with connected(audit) as connection:
        connection.sendall(request("/healthz") + b"GET /healthz HTTP/1.1\nHost: a\n\n")
        statuses = [line for line in listen(connection).split(b"\r\n") if b"HTTP/1.1" in line]
    assert [line.partition(b"HTTP/1.1 ")[2][:3] for line in statuses] == [b"200", b"400"]


def test_who_does_not_finish_a_request_is_let_go(audit: AuditProcess) -> None:
    """However he goes on: saying nothing, beginning, beginning a second one, adding to a body."""
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        silent, begun, second, body = (stack.enter_context(connected(audit)) for _ in range(4))
        begun.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
        second.sendall(request("/healthz"))
        assert second.recv(65_536)
        second.sendall(b"GET / HTTP/1.1\r\n")
        body.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n")
        assert body.recv(65_536)
        for each in (silent, begun, second, body):
            each.settimeout(0.2)
        closed: set[socket.socket] = set()
        while len(closed) < 4 and time.monotonic() < began + 3 * HEAD_SECONDS:
            for each in {begun, body} - closed:
                with contextlib.suppress(OSError):
                    each.sendall(b"X")
            for each in {silent, begun, second, body} - closed:
                try:
                    if not each.recv(65_536):
                        closed.add(each)
                except TimeoutError:
                    pass
                except OSError:
                    closed.add(each)
        assert len(closed) == 4
    assert time.monotonic() - began >= HEAD_SECONDS * 0.9


def test_a_page_is_told_at_once_and_again(audit: AuditProcess) -> None:
    with connected(audit) as connection:
        connection.sendall(request("/api/v1/stream"))
        said = b""
        while b"data: " not in said:
            said += connection.recv(65_536)
        assert b"text/event-stream" in said
        assert b'data: {"version":' in said


def test_one_address_leaves_streams_for_others(audit: AuditProcess) -> None:
    def asked(source: str) -> bytes:
        address = ("127.0.0.1", audit.port)
        connection = socket.create_connection(address, timeout=20, source_address=(source, 0))
        stack.enter_context(connection)
        connection.sendall(request("/api/v1/stream"))
        return connection.recv(65_536)[9:12]

    with contextlib.ExitStack() as stack:
        assert {asked("127.0.0.1") for _ in range(MOST_OF_ONE)} == {b"200"}
        assert asked("127.0.0.1") == b"503"
        others = [asked("127.0.0.2") for _ in range(MOST_STREAMS - MOST_OF_ONE)]
        assert set(others) == {b"200"}
        assert asked("127.0.0.3") == b"503"
        assert b"streams are open" in audit.ask("/api/v1/stream").body
        assert audit.ask("/api/v1/topics").status == 200
    wait_until(lambda: is_streamed(audit), within=20, what="those who left have made room")


def is_streamed(audit: AuditProcess) -> bool:
    with connected(audit) as connection:
        connection.sendall(request("/api/v1/stream"))
        return connection.recv(65_536).startswith(b"HTTP/1.1 200")


def test_who_does_not_read_holds_up_nobody(audit: AuditProcess) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            connection = stack.enter_context(connected(audit))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.sendall(request("/api/openapi.json") * 20)
        began = time.monotonic()
        assert audit.ask("/api/v1/topics").status == 200
        assert time.monotonic() - began < 35


def test_one_address_leaves_connections_for_others(audit: AuditProcess) -> None:
    greedy = ("127.0.0.77", 0)
    at = ("127.0.0.1", audit.port)
    with contextlib.ExitStack() as stack:
        refused = 0
        for _ in range(240):
            connection = socket.create_connection(at, timeout=20, source_address=greedy)
            refused += is_refused(stack.enter_context(connection))
        assert refused == 240 - 192
        assert audit.ask("/api/v1/topics").status == 200
    assert "refused why='too many connections' address=127.0.0.77" in audit.log()


def is_refused(connection: socket.socket) -> bool:
    """Whether it is ended, in place of an answer."""
    with contextlib.suppress(ConnectionError):
        connection.sendall(request("/healthz"))
        return connection.recv(65_536) == b""
    return True


def test_connections_that_are_gone_leave_nothing(audit: AuditProcess) -> None:
    wait_until(lambda: open_files(audit) < 40, within=20, what="files are closed")


def open_files(audit: AuditProcess) -> int:
    return audit.process.open_files()

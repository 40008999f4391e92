"""By TLS, bytes and slices come and go as in the clear: in order, whole, with their ends."""

import select
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from broker.connections.connection import SendQueue
from broker.connections.transports import Clear, Encrypted, Transport
from ground.tls.client import Tls, client_context
from ground.tls.server import ListenerTls, server_context
from harness.logins.certificates import Authority
from wire.framing.slices import FileSlice

SENT = bytes(range(256)) * 200  # four records of TLS


@pytest.fixture(params=["in the clear", "TLS"])
def ends(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[socket.socket, Transport]]:
    """A client, and the broker's end of the connection."""
    client, server = socket.socketpair()
    with client, server:
        if request.param == "in the clear":
            server.setblocking(False)
            yield client, Clear(server)
            return
        authority = Authority(tmp_path / "authority")
        shown = authority.sign("broker")
        tls = ListenerTls(certificate=str(shown.certificate), key=str(shown.key))
        believing = client_context(Tls(ca=str(authority.ca)))
        with ThreadPoolExecutor(1) as threads:
            wrapped = threads.submit(believing.wrap_socket, client, server_hostname="localhost")
            accepted = server_context(tls).wrap_socket(server, server_side=True)
            accepted.setblocking(False)
            with wrapped.result() as encrypted, accepted:
                yield encrypted, Encrypted(accepted)


def test_the_rest_of_a_frame_and_what_follows_come_at_once(
    ends: tuple[socket.socket, Transport],
) -> None:
    client, transport = ends
    client.sendall(SENT)
    rest, scratch = bytearray(3_000), bytearray(100_000)
    count = transport.receive([memoryview(rest), memoryview(scratch)])
    assert count == len(SENT)
    assert rest + scratch[: count - len(rest)] == SENT
    with pytest.raises(BlockingIOError):
        transport.receive([memoryview(scratch)])


def test_what_there_is_no_room_for_is_there_the_next_time(
    ends: tuple[socket.socket, Transport],
) -> None:
    client, transport = ends
    client.sendall(SENT)
    received = bytearray()
    while len(received) < len(SENT):
        small, smaller = bytearray(1_000), bytearray(7)
        count = transport.receive([memoryview(small), memoryview(smaller)])
        assert count == min(1_007, len(SENT) - len(received))
        received += (small + smaller)[:count]
    assert received == SENT
    assert not transport.has_more


def test_what_came_before_the_end_is_told_before_the_end(
    ends: tuple[socket.socket, Transport],
) -> None:
    client, transport = ends
    client.sendall(b"last words")
    client.close()
    target = memoryview(bytearray(100))
    assert transport.receive([target]) == len(b"last words")
    with suppress(ConnectionError):  # TLS, where the client has not read the session tickets
        assert transport.receive([target]) == 0


def test_a_slice_follows_the_bytes_before_it(
    ends: tuple[socket.socket, Transport], tmp_path: Path
) -> None:
    client, transport = ends
    (tmp_path / "log").write_bytes(SENT)
    with (tmp_path / "log").open("rb") as log:
        assert transport.send(b"before", more=True) == 6
        assert transport.send_slice(FileSlice(log, 1, 10)) == 10
        assert transport.send(b"after", more=False) == 5
    assert _received(client, 21) == b"before" + SENT[1:11] + b"after"


def test_what_the_socket_does_not_take_is_sent_later(
    ends: tuple[socket.socket, Transport], tmp_path: Path
) -> None:
    client, transport = ends
    (tmp_path / "log").write_bytes(SENT)
    queue = SendQueue(transport)
    with (tmp_path / "log").open("rb") as log, ThreadPoolExecutor(1) as threads:
        for number in range(40):  # two megabytes: more than the kernel takes
            queue.queue([b"%09d" % number, FileSlice(log, 0, len(SENT))])
        expected = b"".join(b"%09d" % number + SENT for number in range(40))
        queue.send()
        assert queue
        received = threads.submit(_received, client, len(expected))
        while queue:
            select.select([], [transport.descriptor], [])
            queue.send()
        assert received.result() == expected


def test_a_file_that_is_shorter_than_its_slice_is_told(
    ends: tuple[socket.socket, Transport], tmp_path: Path
) -> None:
    _, transport = ends
    (tmp_path / "log").write_bytes(b"")
    with (tmp_path / "log").open("rb") as log:
        assert transport.send(b"before", more=True) == 6
        assert transport.send_slice(FileSlice(log, 0, 10)) == 0


def _received(client: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size and (some := client.recv(size - len(received))):
        received += some
    return bytes(received)

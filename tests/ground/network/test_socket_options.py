"""Sockets that are connected, with both ends on this machine."""

import socket
import struct
from collections.abc import Iterator

import pytest

from ground.network.socket_options import prepare

HOSTS = pytest.mark.parametrize("host", ["127.0.0.1", "::1"])


@pytest.fixture
def listener(host: str) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:
        yield listener


def congestion_of(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


@HOSTS
def test_within_a_machine_nothing_is_paced_or_held_back(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname()[:2]) as client:
        server, _ = listener.accept()
        with server:
            for each in (client, server):
                prepare(each)
                assert congestion_of(each) == b"reno"
                assert each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@HOSTS
def test_who_has_gone_is_no_error(listener: socket.socket) -> None:
    client = socket.create_connection(listener.getsockname()[:2])
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()  # a reset, before it was accepted
    server, _ = listener.accept()
    with server:
        with pytest.raises(OSError, match="not connected"):
            server.getpeername()
        prepare(server)


def test_from_another_address_the_kernel_decides() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname(), source_address=("127.0.0.2", 0))
        with client:
            before = congestion_of(client)
            prepare(client)
            assert congestion_of(client) == before

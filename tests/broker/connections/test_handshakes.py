"""TLS handshakes that are begun and not finished, how many of one address; and listeners that there
cannot be."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from broker.configs.listeners import Listener, ListenerConfig
from broker.connections.complaints import Complaints
from broker.connections.handshakes import Handshakes
from ground.tls.server import ListenerTls, ServerTls
from harness.logins.certificates import Authority
from harness.processes.event_loops import on_event_loop

OF_AN_ADDRESS = 500


class Broker:
    """The handshakes of one, and what has come of them."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory)
        tls = ListenerTls(certificate=str(authority.sign("broker").both))
        config = ListenerConfig(name="TLS", port=1, tls=tls)
        self._listener = Listener(config, 1, ServerTls(tls))
        loop = asyncio.get_running_loop()
        complaints = Complaints(loop.time)
        self.done: list[ssl.SSLSocket] = []
        self.handshakes = Handshakes(
            loop, complaints, lambda _, sock, __: self.done.append(sock), lambda: None
        )
        self.clients: list[socket.socket] = []

    def connect(self, address: str = "127.0.0.1") -> socket.socket:
        """The client's side of a connection that comes from there."""
        theirs, ours = socket.socketpair()
        theirs.setblocking(False)
        ours.setblocking(False)
        self.clients.append(theirs)
        self.handshakes.begin(self._listener, ours, (address, 1))
        return theirs

    def close(self) -> None:
        self.handshakes.close()
        for each in (*self.clients, *self.done):
            each.close()


@contextlib.asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Broker]:
    broker = Broker(directory)
    try:
        yield broker
    finally:
        broker.close()


def is_closed(client: socket.socket) -> bool:
    """Once all that was said has been read."""
    try:
        while client.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    return True


@on_event_loop
async def test_an_ipv6_address_stands_for_its_network(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        for number in range(OF_AN_ADDRESS):
            broker.connect(f"2001:db8::{number:x}")
        assert len(broker.handshakes) == OF_AN_ADDRESS
        assert is_closed(broker.connect("2001:db8::ffff"))
        assert not is_closed(broker.connect("2001:db8:0:1::ffff"))


@pytest.mark.parametrize(
    ("logins", "why"),
    [
        (["PLAIN"], "sends secrets unencrypted: add `tls`"),
        (["SCRAM-SHA-512", "GSSAPI"], "Penstock's brokers do not support Kerberos"),
    ],
)
def test_logins_that_cannot_be(logins: list[str], why: str) -> None:
    known = {"name": "LOCKED", "port": 9093}
    assert msgspec.convert({**known, "logins": ["SCRAM-SHA-512"]}, ListenerConfig).knows_everybody
    with pytest.raises(msgspec.ValidationError, match=why):
        msgspec.convert({**known, "logins": logins}, ListenerConfig)

"""A connection: how long a quota keeps it waiting, and when its socket is closed."""

import asyncio
import socket

import pytest

from broker.configs.config import BrokerLimits
from broker.connections.caller import Caller
from broker.connections.complaints import Complaints
from broker.connections.connection import Connection
from broker.connections.transports import Clear
from harness.processes.event_loops import on_event_loop
from wire.framing.frame_memory import FrameMemory


def connected() -> tuple[socket.socket, Connection, list[Connection]]:
    """The client's end, the broker's, and the connections that are over."""
    client, server = socket.socketpair()
    client.setblocking(False)
    server.setblocking(False)
    loop = asyncio.get_running_loop()
    over: list[Connection] = []
    connection = Connection(
        Clear(server),
        "a client",
        Caller("127.0.0.1"),
        lambda _connection, _frame: None,
        over.append,
        complaints=Complaints(loop.time),
        loop=loop,
        scratch=memoryview(bytearray(1024)),
        memory=FrameMemory(1024),
        size_limit=lambda _api_key: 1024,
        limits=BrokerLimits(),
    )
    return client, connection, over


@on_event_loop
async def test_a_short_wait_does_not_shorten_a_long_one() -> None:
    client, connection, _ = connected()
    with client:
        waits = []
        for seconds in (0.0, 3600.0, 1.0):
            connection.wait(seconds)
            waits.append(connection.throttle_ms > 3_000_000)
        assert waits == [False, True, True]
        connection.close()


@on_event_loop
async def test_the_socket_of_a_refused_request_is_closed_a_moment_later() -> None:
    client, connection, over = connected()
    with client:
        connection.refuse("error='too much'")
        assert not connection.open
        with pytest.raises(BlockingIOError):
            client.recv(1)
        assert over == []
        assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
        assert over == [connection]


@on_event_loop
async def test_a_broker_that_stops_closes_the_socket_of_a_refused_request_at_once() -> None:
    client, connection, over = connected()
    with client:
        connection.refuse("error='too much'")
        connection.close()
        assert (client.recv(1), over) == (b"", [connection])
        connection.close()
        assert over == [connection]

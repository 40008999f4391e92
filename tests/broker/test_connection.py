"""How long a quota keeps a connection waiting."""

import asyncio
import socket

from broker.caller import Caller
from broker.complaints import Complaints
from broker.config import BrokerLimits
from broker.connection import Connection
from broker.transports import Clear
from harness.event_loops import on_event_loop
from wire.frame_memory import FrameMemory


@on_event_loop
async def test_a_short_wait_does_not_shorten_a_long_one() -> None:
    client, server = socket.socketpair()
    server.setblocking(False)
    loop = asyncio.get_running_loop()
    connection = Connection(
        Clear(server),
        "a client",
        Caller("127.0.0.1"),
        lambda _connection, _frame: None,
        lambda _connection: None,
        complaints=Complaints(loop.time),
        loop=loop,
        scratch=memoryview(bytearray(1024)),
        memory=FrameMemory(1024),
        size_limit=lambda _api_key: 1024,
        limits=BrokerLimits(),
    )
    with client:
        waits = []
        for seconds in (0.0, 3600.0, 1.0):
            connection.wait(seconds)
            waits.append(connection.throttle_ms > 3_000_000)
        assert waits == [False, True, True]
        connection.close()

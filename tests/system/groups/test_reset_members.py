"""Members whose connection is reset before an earlier answer is written."""

import os
import signal
import socket
import struct

from harness.penstock.broker import BrokerProcess
from tests.system.raw import (
    API_VERSIONS,
    METADATA,
    RawConnection,
    int16,
    int32,
    metadata_body,
    request,
    string,
)

JOIN_GROUP, SYNC_GROUP = 11, 14
RESET = struct.pack("ii", 1, 0)  # instead of an orderly end


def join_body(group: str) -> bytes:
    protocols = int32(1) + string("range") + int32(0)
    session, rebalance = int32(10_000), int32(10_000)
    return string(group) + session + rebalance + string("") + string("consumer") + protocols


def sync_body(group: str) -> bytes:
    return string(group) + int32(1) + string("nobody") + int32(0)


def test_nothing_of_them_is_left_behind(broker: BrokerProcess) -> None:
    """What is read in one turn: a request whose answer finds nobody, and one that would wait."""
    waiting = {JOIN_GROUP: (2, join_body("reset")), SYNC_GROUP: (1, sync_body("reset"))}
    for key, (version, body) in waiting.items():
        asked = request(METADATA, 1, metadata_body(None)) + request(key, version, body, 2)
        with RawConnection(broker.bootstrap) as connection:
            connection.ask(API_VERSIONS, 0, b"")
            os.kill(broker.process.pid, signal.SIGSTOP)
            try:
                connection.send(asked)
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                connection.close()
            finally:
                os.kill(broker.process.pid, signal.SIGCONT)
    with RawConnection(broker.bootstrap) as connection:
        answer = connection.ask(JOIN_GROUP, 2, join_body("reset"))
    assert answer[4:6] == int16(0)
    assert "never awaited" not in broker.log(), broker.process.last_words()

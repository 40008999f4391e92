"""Fetches as fast as the broker serves, and looks at nothing but the headers of the batches.

One Fetch at a time on one connection, as a client has for each broker: the next offset is known
only from what came. The answer goes into one buffer that is used again.
"""

import socket
import struct
import time

from bench.raw_producer import Throughput
from bench.requests import AnswerError, fetch_request, fetched_records

_OFFSET_AND_LENGTH = struct.Struct(">qi")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_DELTA_AT = 23
_HEADER = 61
_PATIENCE = 60.0
_ROOM = 2**20  # an answer may exceed max_bytes by one batch, and by its own framing


def consume(port: int, topic: str, *, end: int, max_bytes: int, times: int = 1) -> Throughput:
    """Reads partition 0 from its beginning up to `end`, `times` times."""
    buffer = memoryview(bytearray(max_bytes + 2 * _ROOM))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(_PATIENCE)
        started = time.perf_counter()
        for _ in range(times):
            offset = 0
            while offset < end:
                connection.sendall(fetch_request(topic, 0, offset, max_bytes))
                offset = _next_offset(fetched_records(_receive(connection, buffer), topic), offset)
        return Throughput(messages=end * times, seconds=time.perf_counter() - started)


def _receive(connection: socket.socket, buffer: memoryview) -> memoryview:
    have, end = 0, 4
    while have < end:
        got = connection.recv_into(buffer[have : end if end == 4 else None])
        if not got:
            raise AnswerError("the broker closed the connection")
        have += got
        if end == 4 and have == 4:
            (length,) = struct.unpack_from(">i", buffer)
            end += length
            if end > len(buffer):
                raise AnswerError(f"an answer of {length} bytes is larger than was asked for")
    return buffer[4:end]


def _next_offset(records: memoryview, offset: int) -> int:
    """The offset after the last whole batch; an answer may end within one."""
    position, size = 0, len(records)
    unpack = _OFFSET_AND_LENGTH.unpack_from
    last, base = -1, 0
    while position + _HEADER <= size:
        base, length = unpack(records, position)
        if position + 12 + length > size:
            break
        last, position = position, position + 12 + length
    if last < 0:
        return offset
    (base, _) = unpack(records, last)
    (delta,) = _LAST_OFFSET_DELTA.unpack_from(records, last + _DELTA_AT)
    return int(base) + int(delta) + 1

"""Consuming from the beginning of a log in the page cache.

The raw consumer reads batch headers only, like the paper's broker measurement; kcat unpacks every
message and writes it to /dev/null. Both read what the raw producer wrote before the rounds.
"""

import socket
import ssl
import struct
import time
from functools import partial

from bench.contents.topics import create, ends, wait_for_end
from bench.figures.measurement import CPU_PER_GB, RATE, Goal, Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.figures.throughput import SMALL, metered
from bench.loads import librdkafka
from bench.loads.raw_producer import Throughput, produce
from bench.loads.request_load import connect
from bench.loads.requests import MEGABYTE_BATCH, AnswerError, fetch_request, fetched_records

_OFFSET_AND_LENGTH = struct.Struct(">qi")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_DELTA_AT = 23
_HEADER = 61
_ANSWER_SECONDS = 60.0
_ROOM = 2**20  # an answer may exceed max_bytes by one batch, and by its own framing


def consume(
    port: int,
    topic: str,
    *,
    end: int,
    max_bytes: int,
    times: int = 1,
    tls: ssl.SSLContext | None = None,
) -> Throughput:
    """Reads partition 0 from its beginning up to `end`, `times` times."""
    buffer = memoryview(bytearray(max_bytes + 2 * _ROOM))
    with connect(port, tls) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        start_time = time.perf_counter()
        for _ in range(times):
            offset = 0
            while offset < end:
                connection.sendall(fetch_request(topic, 0, offset, max_bytes))
                offset = _next_offset(fetched_records(_receive(connection, buffer), topic), offset)
        return Throughput(messages=end * times, seconds=time.perf_counter() - start_time)


def _receive(connection: socket.socket, buffer: memoryview) -> memoryview:
    received_bytes, end = 0, 4
    while received_bytes < end:
        size = connection.recv_into(buffer[received_bytes : end if end == 4 else None])
        if not size:
            raise AnswerError("the broker closed the connection")
        received_bytes += size
        if end == 4 and received_bytes == 4:
            (length,) = struct.unpack_from(">i", buffer)
            end += length
            if end > len(buffer):
                raise AnswerError(f"an answer of {length} bytes is larger than requested")
    return buffer[4:end]


def _next_offset(records: memoryview, offset: int) -> int:
    """The offset after the last complete batch; an answer may end within one."""
    position, size = 0, len(records)
    unpack = _OFFSET_AND_LENGTH.unpack_from
    last_position, base = -1, 0
    while position + _HEADER <= size:
        base, length = unpack(records, position)
        if position + 12 + length > size:
            break
        last_position, position = position, position + 12 + length
    if last_position < 0:
        return offset
    (base, _) = unpack(records, last_position)
    (delta,) = _LAST_OFFSET_DELTA.unpack_from(records, last_position + _DELTA_AT)
    return int(base) + int(delta) + 1


# Reads of the whole log: processor time has a resolution of 10 ms.
_READS = 3
_READS_OF_THE_SHORT_LOG = 15
_MEBIBYTE = 2**20
_PATIENCE = 600.0


def _name(batch: int) -> str:
    return f"log-of-{batch}"


def _prepare(context: CaseContext) -> None:
    for batch, window in ((1, 64), (50, 64), (MEGABYTE_BATCH, 4)):
        create(context.broker.port, {_name(batch): 1})
        load = produce(
            [context.broker.port],
            _name(batch),
            batch=batch,
            acks=1,
            window=window,
            seconds=_PATIENCE,
            limit=context.scale.slow_messages if batch == 1 else context.scale.messages,
        )
        wait_for_end(context.broker.port, _name(batch), load.messages)


def _raw(context: CaseContext, *, batch: int, max_bytes: int) -> Sample:
    port, name = context.broker.port, _name(batch)
    end = ends(port, {name: 1})[name, 0]
    times = _READS_OF_THE_SHORT_LOG if batch == 1 else _READS
    return metered(
        context.broker, lambda: consume(port, name, end=end, max_bytes=max_bytes, times=times)
    )


def _kcat(context: CaseContext, *, batch: int) -> Sample:
    port, name = context.broker.port, _name(batch)
    end = ends(port, {name: 1})[name, 0]
    return metered(context.broker, lambda: librdkafka.kcat_consume(port, name, end))


_AHEAD = Goal(RATE, at_least=22_000, ahead=True)
_ENOUGH = Goal(RATE, at_least=22_000)
_CHEAP = Goal(CPU_PER_GB, at_most=0.2, ahead=True)
_CHEAPER = Goal(CPU_PER_GB, ahead=True)

PROFILES = (
    Profile(
        "consume",
        "reading a log of 200-byte messages; the paper's consumer: 22,000 a second",
        (
            Case(
                "raw, batches of 50, fetches of 1 MB",
                partial(_raw, batch=50, max_bytes=_MEBIBYTE),
                (_AHEAD, _CHEAP, SMALL),
            ),
            Case(
                "raw, batches of 1 MB, fetches of 1 MB",
                partial(_raw, batch=MEGABYTE_BATCH, max_bytes=_MEBIBYTE),
                (_AHEAD, _CHEAP, SMALL),
            ),
            Case(
                "raw, batches of 1 MB, fetches of 50 MB",
                partial(_raw, batch=MEGABYTE_BATCH, max_bytes=50 * _MEBIBYTE),
                (_AHEAD, _CHEAP, SMALL),
            ),
            Case(
                "raw, batches of 1, fetches of 1 MB",
                partial(_raw, batch=1, max_bytes=_MEBIBYTE),
                (_ENOUGH, _CHEAPER, SMALL),
            ),
            Case("kcat, batches of 50", partial(_kcat, batch=50), (_AHEAD, _CHEAP, SMALL)),
            Case(
                "kcat, batches of 1 MB",
                partial(_kcat, batch=MEGABYTE_BATCH),
                (_AHEAD, _CHEAP, SMALL),
            ),
        ),
        prepare=_prepare,
    ),
)

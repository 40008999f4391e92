"""Batches as the decoder gives them, made of events that tests think up."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from client.connection.security import Security
from loader.config import FileCompression, HeaderColumns
from loader.decoding.decoded import Dead, Decoded
from loader.landing.task import Landing
from loader.landing.task_spec import TaskSpec
from loader.values.tables import FIRST_TIME, HOUR_MILLIS, LAST_TIME, Slice
from schemas.remote.address import RegistryAddress
from wire.record_batches.batch import BatchHeader

START = 497_000 * HOUR_MILLIS  # in September 2026
MINUTE = 60_000
EPOCH = 5
CRC = 77
SIZE = 1000  # bytes of a batch
SCHEMA_ID = 9

COLUMNS = pa.schema(
    [
        pa.field("text", pa.string()),
        pa.field("time", pa.timestamp("us", tz="UTC")),
        pa.field("source", pa.string()),
        pa.field("seq", pa.int64()),
        pa.field("_topic", pa.string()),
        pa.field("_partition", pa.int32()),
        pa.field("_offset", pa.int64()),
    ]
)


class Event(NamedTuple):
    """One that becomes a row, if it is no duplicate."""

    offset: int
    time: int
    source: str
    seq: int


def a_slice(first: int = 0, end: int = 1_000_000, **changes: Any) -> Slice:
    known: dict[str, Any] = {"topic": "clicks", "topic_id": "", "cluster": "dc1", "partition": 7}
    return Slice(**{"number": 3, "first": first, "end": end, **known, **changes})


def a_spec(**changes: Any) -> TaskSpec:
    wanted: dict[str, Any] = {
        "brokers": ("127.0.0.1:1",),
        "security": Security(),
        "registry": RegistryAddress("http://127.0.0.1:1"),
        "table": "clicks",
        "reader_schema": '"string"',
        "header": HeaderColumns.FLAT,
        "with_cluster": False,
        "compression": FileCompression.ZSTD,
        "memory_bytes": 1 << 20,
        "window_millis": MINUTE,
        "times": (FIRST_TIME, LAST_TIME),
    }
    return TaskSpec(**wanted | changes)


def a_header(base: int, count: int, time: int) -> BatchHeader:
    return BatchHeader(base, SIZE - 12, EPOCH, 2, CRC, 0, count - 1, time, time, -1, -1, -1, count)


def decoded(events: Sequence[Event], dead: Sequence[Dead] = (), *, named: bool = True) -> Decoded:
    """`named`: the events say which they are."""
    times = pa.array([each.time for each in events], pa.int64())
    sources = pa.array([each.source for each in events], pa.string())
    seqs = pa.array([each.seq for each in events], pa.int64())
    rows = {
        "text": [f"event {each.seq} of {each.source}" for each in events],
        "time": [each.time * 1000 for each in events],
        "source": sources,
        "seq": seqs,
        "_topic": ["clicks"] * len(events),
        "_partition": [7] * len(events),
        "_offset": [each.offset for each in events],
    }
    count = len(events) + len(dead)
    return Decoded(
        pa.RecordBatch.from_pydict(rows, schema=COLUMNS) if events else None,
        times,
        sources if named else None,
        seqs if named else None,
        tuple(dead),
        schema_ids={SCHEMA_ID: count} if count else {},
    )


def in_order(
    count: int, *, source: str = "a/1", first: int = 0, offset: int = 0, time: int = START
) -> list[Event]:
    """Consecutive events of one source, a millisecond apart."""
    return [Event(offset + at, time + at, source, first + at) for at in range(count)]


def landed(landing: Landing, *batches: Sequence[Event]) -> Iterator[pa.RecordBatch]:
    """The pieces of these batches, each of events with consecutive offsets, and the last ones."""
    end = 0
    for events in batches:
        header = a_header(events[0].offset, len(events), events[0].time)
        yield from landing.take(header, decoded(events))
        end = header.next_offset
    yield from landing.end(end, EPOCH)

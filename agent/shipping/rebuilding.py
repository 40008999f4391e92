"""Batches taken apart into records, and these put together in another way. Pure.

Values are passed on as they are. What a batch is made from says what it must be like: its codec,
its order, the smallest time as its base. Of an event, the header can be read from its message.
"""

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any, Final, NamedTuple

import fastavro
import msgspec

from client.delivery import Batch, TopicPartition
from schemas.bodies.fastavro_schema import FIELD, fastavro_schema
from schemas.envelope import PREFIX_SIZE
from schemas.event_schemas import HEADER, built_in
from wire.compression import Codec
from wire.records import Record, build_batch, records

NO_EPOCH: Final = -1
_MARGIN_MILLIS: Final = 60_000  # clocks differ


class TimeBounds(msgspec.Struct, frozen=True):
    """How far before and after its own clock a topic takes times, in milliseconds."""

    before: int
    after: int

    def hold(self, times: Iterable[int], now: int) -> bool:
        """Whether all of these are taken."""
        return all(now - self.before <= time <= now + self.after for time in times)

    def clamped(self, time: int, now: int) -> int:
        oldest = now - self.before + min(_MARGIN_MILLIS, self.before // 2)
        newest = now + self.after - min(_MARGIN_MILLIS, self.after // 2)
        return max(oldest, min(newest, time))


def contents(batch: Batch) -> list[Record]:
    return list(records(batch.data))


def batch_of(target: TopicPartition, parts: Sequence[Record], codec: Codec) -> Batch:
    """These records, one after the other, as a batch without numbers."""
    placed = [each._replace(offset=at) for at, each in enumerate(parts)]
    base = min(each.timestamp for each in placed)
    data = build_batch(placed, codec=codec, base_timestamp=base, leader_epoch=NO_EPOCH)
    return Batch(target, data)


def codec_of(batch: Batch) -> Codec:
    return Codec(batch.header.codec)


def plainer(codec: Codec) -> Codec | None:
    """What is tried where a codec was refused; None if nothing is left."""
    if codec is Codec.NONE:
        return None
    return Codec.NONE if codec is Codec.GZIP else Codec.GZIP


_SCHEMA: Final = fastavro_schema(built_in(HEADER))


class EventHeader(NamedTuple):
    time: int
    host: str
    app: str
    source: str
    seq: int
    position: int


def event_header(message: bytes) -> EventHeader:
    """Of a message that this agent made."""
    read: Any = fastavro.schemaless_reader(BytesIO(message[PREFIX_SIZE:]), _SCHEMA, None)
    return EventHeader(**read[FIELD])

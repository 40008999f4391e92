"""Takes batches apart into records, and builds other batches from them. Pure.

Values are not changed. A new batch keeps the codec and order of its original, with the smallest
time as its base. The header of an event can be read from its message.
"""

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any, Final, NamedTuple

import fastavro
import msgspec

from client.producing.delivery import Batch, TopicPartition
from schemas.bodies.fastavro_schema import FIELD, fastavro_schema
from schemas.envelope import PREFIX_SIZE
from schemas.event_schemas import HEADER, built_in
from wire.record_batches.compression import Codec
from wire.record_batches.records import Record, build_batch, records

NO_EPOCH: Final = -1
_MARGIN_MILLIS: Final = 60_000  # clocks differ


class TimeBounds(msgspec.Struct, frozen=True):
    """The range of times that a topic accepts before and after its clock, in milliseconds."""

    before: int
    after: int

    def hold(self, times: Iterable[int], now: int) -> bool:
        """Whether the topic accepts all these times."""
        return all(now - self.before <= time <= now + self.after for time in times)

    def clamped(self, time: int, now: int) -> int:
        oldest = now - self.before + min(_MARGIN_MILLIS, self.before // 2)
        newest = now + self.after - min(_MARGIN_MILLIS, self.after // 2)
        return max(oldest, min(newest, time))


def contents(batch: Batch) -> list[Record]:
    return list(records(batch.data))


def batch_of(target: TopicPartition, parts: Sequence[Record], codec: Codec) -> Batch:
    """A batch of these records, without a producer's numbers."""
    placed_records = [record._replace(offset=index) for index, record in enumerate(parts)]
    base = min(record.timestamp for record in placed_records)
    data = build_batch(placed_records, codec=codec, base_timestamp=base, leader_epoch=NO_EPOCH)
    return Batch(target, data)


def codec_of(batch: Batch) -> Codec:
    return Codec(batch.header.codec)


def plainer(codec: Codec) -> Codec | None:
    """The codec to try after this one was refused; None if none is left."""
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
    """The header of a message that this agent encoded."""
    fields: Any = fastavro.schemaless_reader(BytesIO(message[PREFIX_SIZE:]), _SCHEMA, None)
    return EventHeader(**fields[FIELD])

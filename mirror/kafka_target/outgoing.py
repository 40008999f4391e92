"""Prepares the batches of one partition for an Apache Kafka target. Pure.

Records are not decompressed or copied. A batch gets a new header with the mirror's producer, a
sequence number, and the resulting CRC (checksum.py).

Rule 1: what readers of committed messages do not see at the source is not copied: transaction
        markers and aborted messages. Committed ones become ordinary batches, in the order of the
        source's offsets.
Rule 2: Apache Kafka accepts a batch from a client only if its offsets have no holes, and uses the
        producer's timestamps. So a batch with holes from compaction, or with the broker's append
        time, is decompressed: its messages are renumbered, with the timestamps that readers see.
Rule 3: the offset of a batch in the copy is known before it is sent, since there is no other
        writer. So the runs for the map are known, too (runs.py).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from crc32c import crc32c

from client.reading.committed import Committed
from mirror.kafka_target.checksum import crc_with
from mirror.kafka_target.runs import Run, Writer
from mirror.partitions.whole_batches import Cut, cut
from wire.errors import BatchError, ErrorCode
from wire.messages.fetch import AbortedTransaction
from wire.record_batches.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    next_sequence,
)
from wire.record_batches.records import DELETE_HORIZON, Codec, build_batch, records

_NEEDS_REWRITE: Final = LOG_APPEND_TIME | DELETE_HORIZON


class Footing(msgspec.Struct):
    """A worker's position in one partition of the copy since it resumed."""

    writer: Writer
    source: int  # the next offset of the source ...
    target: int  # ... goes to this offset of the copy, if nothing is skipped
    sequence: int = 0
    written: int = 0  # the copy's acknowledged end
    is_over: bool = False  # a batch was refused: nothing more is sent


class Outgoing(NamedTuple):
    """A batch to be sent."""

    head: bytes
    records: memoryview


class Taken(Cut):
    """The outgoing batches; `headers` are the source's."""

    batches: list[Outgoing] = msgspec.field(default_factory=list)
    places: list[int] = msgspec.field(default_factory=list)  # the offset of each in the copy
    runs: list[Run] = msgspec.field(default_factory=list)  # that begin with these batches
    behind: int = 0  # the copy's end after these batches


def take(
    received: memoryview,
    position: int,
    footing: Footing,
    aborted: Sequence[AbortedTransaction] | None,
    *,
    gaps: bool,
) -> Taken:
    """Prepares all whole batches; the footing advances past them."""
    received_batches = cut(received, position, gaps=gaps)
    taken = Taken(
        received_batches.data,
        position,
        gap=received_batches.gap,
        fault=received_batches.fault,
        needs=received_batches.needs,
    )
    transactions, start = Committed(aborted), 0
    for header in received_batches.headers:
        batch = received_batches.data[start : start + header.size]
        start += header.size
        try:
            if transactions.counts(header, batch):
                _take(taken, footing, header, batch)
        except BatchError as error:
            taken.gap = None
            taken.fault = f"at offset {header.base_offset} the source has an invalid batch: {error}"
            break
        taken.next_offset = header.next_offset
    taken.behind = footing.target
    return taken


def _take(taken: Taken, footing: Footing, header: BatchHeader, batch: memoryview) -> None:
    count = header.record_count
    is_opened = count != header.last_offset_delta + 1 or bool(header.attributes & _NEEDS_REWRITE)
    outgoing = _opened(header, batch, footing) if is_opened else _stamped(header, batch, footing)
    is_dense = count == header.last_offset_delta + 1
    if header.base_offset != footing.source or not is_dense:
        taken.runs.append(Run(header.base_offset, footing.target, exact=is_dense))
    taken.batches.append(outgoing)
    taken.places.append(footing.target)
    taken.headers.append(header)
    footing.source = header.next_offset
    footing.target += count
    footing.sequence = next_sequence(footing.sequence, count)
    if not is_dense:
        taken.runs.append(Run(footing.source, footing.target))


def _stamped(header: BatchHeader, batch: memoryview, footing: Footing) -> Outgoing:
    new_header = header._replace(
        base_offset=0,
        leader_epoch=-1,
        attributes=header.attributes & CODEC_MASK,
        producer_id=footing.writer.producer_id,
        producer_epoch=footing.writer.epoch,
        base_sequence=footing.sequence,
    )
    new_header = new_header._replace(crc=crc_with(new_header, header))
    return Outgoing(HEADER.pack(*new_header), batch[HEADER_SIZE:])


def _opened(header: BatchHeader, batch: memoryview, footing: Footing) -> Outgoing:
    if crc32c(batch[CRC_START:]) != header.crc:
        raise BatchError(ErrorCode.corrupt_message, "the batch's CRC does not match its bytes")
    messages = [
        record._replace(
            offset=number,
            timestamp=header.max_timestamp if header.is_append_time else record.timestamp,
        )
        for number, record in enumerate(records(batch))
    ]
    if len(messages) != header.record_count:
        raise BatchError(
            ErrorCode.corrupt_message,
            f"{len(messages)} records, but the header has {header.record_count}",
        )
    new_batch = build_batch(
        messages,
        codec=Codec(header.codec),
        producer_id=footing.writer.producer_id,
        producer_epoch=footing.writer.epoch,
        base_sequence=footing.sequence,
    )
    return Outgoing(b"", memoryview(new_batch))


def is_same(source_header: BatchHeader, copy_header: BatchHeader) -> bool:
    """Whether a batch of the copy matches one of the source, by their headers. If the target has
    recompressed it, its records cannot be compared."""
    source_values = (
        source_header.base_timestamp,
        source_header.record_count,
        source_header.last_offset_delta,
    )
    if source_values != (
        copy_header.base_timestamp,
        copy_header.record_count,
        copy_header.last_offset_delta,
    ):
        return False
    if source_header.codec != copy_header.codec:
        return True
    return (
        source_header.size == copy_header.size
        and crc_with(copy_header, source_header) == copy_header.crc
    )

"""What an answer of the source brings of one partition, as an Apache Kafka target takes it. Pure.

Records are not unpacked, and not copied. A batch gets another header, with the producer of the
mirror, a sequence, and the CRC that follows from that (checksum.py).

Rule 1: what the source's readers of committed messages do not see is not copied: markers of
        transactions, and what was aborted. What was committed goes in as ordinary batches, in the
        order of the source's offsets.
Rule 2: Apache Kafka takes a batch from a client only if its offsets have no holes, and with its
        producer's times. So one that compaction has left holes in, and one that has the time at
        which it was appended, is opened: its messages are numbered anew, with the times that
        readers see.
Rule 3: where a batch comes to lie in the copy is known before it goes out, as nobody else writes
        there. So the runs of the map are known, too (runs.py).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from crc32c import crc32c

from client.committed import Committed
from mirror.batches import Cut, cut
from mirror.kafka_target.checksum import crc_with
from mirror.kafka_target.runs import Run, Writer
from wire.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    next_sequence,
)
from wire.errors import BatchError, ErrorCode
from wire.messages.fetch import AbortedTransaction
from wire.records import DELETE_HORIZON, Codec, build_batch, records

_NOT_AS_IT_IS: Final = LOG_APPEND_TIME | DELETE_HORIZON


class Footing(msgspec.Struct):
    """Where a worker writes in one partition of the copy, since it has begun there."""

    writer: Writer
    source: int  # that offset of the source comes to lie
    target: int  # there, as long as nothing is left out
    sequence: int = 0
    written: int = 0  # up to where the copy has it
    is_over: bool = False  # something was refused: nothing more goes out by it


class Outgoing(NamedTuple):
    """A batch as it goes out."""

    head: bytes
    records: memoryview


class Taken(Cut):
    """Batches as they go out, one by one; `headers` are those that the source had for them."""

    batches: list[Outgoing] = msgspec.field(default_factory=list)
    places: list[int] = msgspec.field(default_factory=list)  # the offset of each in the copy
    runs: list[Run] = msgspec.field(default_factory=list)  # that begin with them
    behind: int = 0  # where the copy ends then


def take(
    received: memoryview,
    position: int,
    footing: Footing,
    aborted: Sequence[AbortedTransaction] | None,
    *,
    gaps: bool,
) -> Taken:
    """All that is whole; the footing moves on behind it."""
    found = cut(received, position, gaps=gaps)
    taken = Taken(found.data, position, gap=found.gap, fault=found.fault, needs=found.needs)
    committed, at = Committed(aborted), 0
    for header in found.headers:
        batch = found.data[at : at + header.size]
        at += header.size
        try:
            if committed.counts(header, batch):
                _take(taken, footing, header, batch)
        except BatchError as error:
            taken.gap = None
            taken.fault = f"at offset {header.base_offset} the source has what cannot be: {error}"
            break
        taken.next_offset = header.next_offset
    taken.behind = footing.target
    return taken


def _take(taken: Taken, footing: Footing, header: BatchHeader, batch: memoryview) -> None:
    count = header.record_count
    is_opened = count != header.last_offset_delta + 1 or bool(header.attributes & _NOT_AS_IT_IS)
    out = _opened(header, batch, footing) if is_opened else _stamped(header, batch, footing)
    is_dense = count == header.last_offset_delta + 1
    if header.base_offset != footing.source or not is_dense:
        taken.runs.append(Run(header.base_offset, footing.target, exact=is_dense))
    taken.batches.append(out)
    taken.places.append(footing.target)
    taken.headers.append(header)
    footing.source = header.next_offset
    footing.target += count
    footing.sequence = next_sequence(footing.sequence, count)
    if not is_dense:
        taken.runs.append(Run(footing.source, footing.target))


def _stamped(header: BatchHeader, batch: memoryview, footing: Footing) -> Outgoing:
    stamped = header._replace(
        base_offset=0,
        leader_epoch=-1,
        attributes=header.attributes & CODEC_MASK,
        producer_id=footing.writer.producer_id,
        producer_epoch=footing.writer.epoch,
        base_sequence=footing.sequence,
    )
    stamped = stamped._replace(crc=crc_with(stamped, header))
    return Outgoing(HEADER.pack(*stamped), batch[HEADER_SIZE:])


def _opened(header: BatchHeader, batch: memoryview, footing: Footing) -> Outgoing:
    if crc32c(batch[CRC_START:]) != header.crc:
        raise BatchError(ErrorCode.corrupt_message, "the batch's CRC does not match its bytes")
    messages = [
        each._replace(
            offset=number,
            timestamp=header.max_timestamp if header.is_append_time else each.timestamp,
        )
        for number, each in enumerate(records(batch))
    ]
    if len(messages) != header.record_count:
        raise BatchError(
            ErrorCode.corrupt_message, f"{len(messages)} records, said to be {header.record_count}"
        )
    built = build_batch(
        messages,
        codec=Codec(header.codec),
        producer_id=footing.writer.producer_id,
        producer_epoch=footing.writer.epoch,
        base_sequence=footing.sequence,
    )
    return Outgoing(b"", memoryview(built))


def is_same(there: BatchHeader, here: BatchHeader) -> bool:
    """Whether a batch of the copy is that one of the source, by the headers of both. Where the
    target has packed it anew its records cannot be compared."""
    wanted = there.base_timestamp, there.record_count, there.last_offset_delta
    if wanted != (here.base_timestamp, here.record_count, here.last_offset_delta):
        return False
    if there.codec != here.codec:
        return True
    return there.size == here.size and crc_with(here, there) == here.crc

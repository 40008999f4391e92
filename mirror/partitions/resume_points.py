"""Finds the offset at which copying a partition resumes. No progress is stored: both sides are
asked.

    the copy ends at X ─▶ does the batch before X match the source's? ─▶ resume at X
                     └──▶ other faults are reported with both ends, and the partition stops

Rule 1: the last batch of the copy and the source's batch there are compared by base offset, length
        and CRC. If they differ, the source has another history than the one that was copied.
Rule 2: a source that ends before the copy has lost its tail, or is another log.
Rule 3: a source that begins after the copy's end leaves a gap. It is skipped if it was accepted
        (`penstock.mirror.accept.gap`), or if the source compacts.
Rule 4: where the source compacts, batches may change: only the ends are compared.
Rule 5: if a side hides data, for lack of a permission, copying does not resume uncompared.

`decide` is pure; `look` asks one broker of each side, and blocks.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from client.connection.addresses import Address
from client.connection.bootstrap import Access
from client.connection.connection import BrokerConnection
from client.reading.fetch_session import Key
from client.rights import TO_SEE
from mirror.partitions.gaps import Gap
from mirror.partitions.refusal_texts import refusal_text
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.framing.slices import FileSlice
from wire.messages import fetch, list_offsets
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.record_batches.batch import HEADER_SIZE, BatchHeader, read_header

_GLIMPSE: Final = 4096  # bytes fetched to get a batch's header
_AT_ONCE: Final = 200  # partitions in a request for headers
_SAYS_ALL: Final = frozenset({ErrorCode.none, ErrorCode.offset_out_of_range})


class Span(NamedTuple):
    """The offsets of a log: the first, and the one after the last."""

    start: int
    end: int


class Both(msgspec.Struct, frozen=True):
    """The state of a partition on both sides."""

    source: Span
    target: Span
    next_there: BatchHeader | None = None  # the source's batch at the copy's end
    last_there: BatchHeader | None = None  # the source's batch before that
    last_here: BatchHeader | None = None  # the copy's last batch


class GoOn(msgspec.Struct, frozen=True):
    """Copying resumes at this offset, `over` a gap that was accepted or precedes a new copy."""

    offset: int
    over: Gap | None = None


class Stop(msgspec.Struct, frozen=True):
    """The partition cannot be copied; `gap` is set if it can be accepted."""

    reason: str
    gap: Gap | None = None


class Again(msgspec.Struct, frozen=True):
    """A side gave no answer, so the query must be repeated."""

    reason: str


Beginning = GoOn | Stop | Again


def decide(both: Both, *, compacts: bool, accepted: int | None, may_pass: bool) -> GoOn | Stop:
    """Decides where to resume. `accepted` and `may_pass`: see `Gap.is_refused`."""
    source, target = both.source, both.target
    if source.end < target.end:
        return Stop(
            f"the source went back: it ends at {source.end}, the copy at {target.end}. It lost "
            "its tail, or is not the log that was copied"
        )
    next_offset = source.start if both.next_there is None else both.next_there.base_offset
    if next_offset > target.end:
        gap = Gap(target.end, next_offset)
        offset = max(next_offset, source.start)  # a log may start within its first batch
        if compacts:
            return GoOn(offset)
        if gap.is_refused(accepted=accepted, may_pass=may_pass):
            return Stop(gap.refusal(), gap)
        return GoOn(offset, gap)
    copy_header, source_header = both.last_here, both.last_there
    if (
        copy_header is not None
        and source_header is not None
        and not compacts
        and not is_same(copy_header, source_header)
    ):
        return Stop(
            f"differs: the copy's last batch is at offset {copy_header.base_offset} with CRC "
            f"{copy_header.crc:#010x} and {copy_header.size} bytes, the source's at "
            f"{source_header.base_offset} with CRC {source_header.crc:#010x} and "
            f"{source_header.size} bytes: the source has another history"
        )
    return GoOn(max(target.end, source.start))


def is_same(header: BatchHeader, other: BatchHeader) -> bool:
    """Whether two headers belong to the same batch."""
    return (header.base_offset, header.length, header.crc) == (
        other.base_offset,
        other.length,
        other.crc,
    )


class PartitionPair(NamedTuple):
    """A partition's names, and the gaps that may be skipped."""

    here: Key
    there: Key
    compacts: bool
    accepted: int | None
    has_gap: bool = False  # the source's next batch begins after the copy's end
    may_pass: bool = False  # any gap


def look(
    source: tuple[Address, Access],
    target: tuple[Address, Access],
    partitions: Sequence[PartitionPair],
    client_id: str,
) -> dict[Key, tuple[Beginning, Both | None]]:
    """The result for each partition, by its name at the target, with the state of both sides.
    Blocks; asks the broker of each side that leads all of them. Raises ClientError."""
    source_connection = BrokerConnection(source[0], client_id, source[1])
    try:
        target_connection = BrokerConnection(target[0], client_id, target[1])
        try:
            return _look(source_connection, target_connection, partitions)
        finally:
            target_connection.close()
    finally:
        source_connection.close()


def _look(
    source: BrokerConnection, target: BrokerConnection, partitions: Sequence[PartitionPair]
) -> dict[Key, tuple[Beginning, Both | None]]:
    source_spans = spans(source, [pair.there for pair in partitions])
    target_spans = spans(target, [pair.here for pair in partitions])
    results: dict[Key, tuple[Beginning, Both | None]] = {}
    spans_of_pairs: list[tuple[PartitionPair, Span, Span]] = []
    for pair in partitions:
        source_span, target_span = source_spans[pair.there], target_spans[pair.here]
        if isinstance(source_span, str):
            results[pair.here] = Again(f"the source says: {source_span}"), None
        elif isinstance(target_span, str):
            results[pair.here] = Again(f"the target says: {target_span}"), None
        else:
            spans_of_pairs.append((pair, source_span, target_span))
    last_here, target_errors = _headers(
        target,
        {
            pair.here: target_span.end - 1
            for pair, _, target_span in spans_of_pairs
            if target_span.end > target_span.start
        },
    )
    last_there, source_errors = _headers(
        source,
        {
            pair.there: target_span.end - 1
            for pair, source_span, target_span in spans_of_pairs
            if source_span.start < target_span.end <= source_span.end
        },
    )
    next_there, next_errors = _headers(
        source,
        {
            pair.there: max(source_span.start, target_span.end)
            for pair, source_span, target_span in spans_of_pairs
            if source_span.end > max(source_span.start, target_span.end)
            and (pair.has_gap or source_span.start > target_span.end)
        },
    )
    source_errors |= next_errors
    for pair, source_span, target_span in spans_of_pairs:
        if pair.there in source_errors:
            results[pair.here] = Again(f"the source says: {source_errors[pair.there]}"), None
            continue
        if pair.here in target_errors:
            results[pair.here] = Again(f"the target says: {target_errors[pair.here]}"), None
            continue
        both = Both(
            source_span,
            target_span,
            next_there=next_there.get(pair.there),
            last_there=last_there.get(pair.there),
            last_here=last_here.get(pair.here),
        )
        outcome = decide(
            both, compacts=pair.compacts, accepted=pair.accepted, may_pass=pair.may_pass
        )
        results[pair.here] = outcome, both
    return results


def spans(connection: BrokerConnection, keys: Iterable[Key]) -> dict[Key, Span | str]:
    """The first and end offsets of partitions, or the broker's error text."""
    partitions = list(keys)
    starts = _offsets(connection, partitions, list_offsets.EARLIEST)
    ends = _offsets(connection, partitions, list_offsets.LATEST)
    results: dict[Key, Span | str] = {}
    for key in partitions:
        start, end = starts.get(key, "nothing"), ends.get(key, "nothing")
        if isinstance(start, str):
            results[key] = start
        elif isinstance(end, str):
            results[key] = end
        else:
            results[key] = Span(start, end)
    return results


class NotShown(Exception):
    """The error for a batch that a broker does not show; the message has the reason."""


def source_ends(
    source: tuple[Address, Access], keys: Iterable[Key], client_id: str
) -> dict[Key, int]:
    """The current end offsets of those partitions for which the leader returns one. Blocks; raises
    ClientError."""
    connection = BrokerConnection(source[0], client_id, source[1])
    try:
        ends = _offsets(connection, list(keys), list_offsets.LATEST)
    finally:
        connection.close()
    return {key: end for key, end in ends.items() if not isinstance(end, str)}


def _offsets(
    connection: BrokerConnection, keys: Sequence[Key], timestamp: int
) -> dict[Key, int | str]:
    topics = tuple(
        ListOffsetsTopic(
            name=topic,
            partitions=tuple(
                ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                for index in indexes
            ),
        )
        for topic, indexes in _by_topic(keys).items()
    )
    answer = connection.call(list_offsets.API, ListOffsetsRequest(topics=topics))
    return {
        (topic.name, partition.partition_index): (
            partition.offset
            if partition.error_code is ErrorCode.none
            else refusal_text(partition.error_code, connection.who, topic.name, *TO_SEE)
        )
        for topic in answer.topics
        for partition in topic.partitions
    }


def batch_at(connection: BrokerConnection, key: Key, offset: int) -> BatchHeader:
    """The header of the batch that contains the offset, or of the next one. Raises NotShown."""
    errors: dict[Key, str] = {}
    header = _glimpses(connection, {key: offset}, errors).get(key)
    if header is None:
        raise NotShown(errors.get(key, f"no batch at or after offset {offset}"))
    return header


def headers_at(connection: BrokerConnection, offsets: Mapping[Key, int]) -> dict[Key, BatchHeader]:
    """The headers of the batches at these offsets, where there is a batch."""
    batches, _ = _headers(connection, offsets)
    return batches


def _headers(
    connection: BrokerConnection, offsets: Mapping[Key, int]
) -> tuple[dict[Key, BatchHeader], dict[Key, str]]:
    """The headers, and the broker's error texts."""
    batches: dict[Key, BatchHeader] = {}
    errors: dict[Key, str] = {}
    keys = list(offsets)
    for first in range(0, len(keys), _AT_ONCE):
        portion = {key: offsets[key] for key in keys[first : first + _AT_ONCE]}
        batches |= _glimpses(connection, portion, errors)
    # If a broker sends whole batches only, just the first may exceed the requested size.
    for key in keys:
        if key not in batches and key not in errors:
            batches |= _glimpses(connection, {key: offsets[key]}, errors)
    return batches, errors


def _glimpses(
    connection: BrokerConnection, offsets: Mapping[Key, int], errors: dict[Key, str]
) -> dict[Key, BatchHeader]:
    topics = tuple(
        FetchTopic(
            topic=topic,
            partitions=tuple(
                FetchPartition(
                    partition=index,
                    fetch_offset=offsets[topic, index],
                    partition_max_bytes=_GLIMPSE,
                )
                for index in indexes
            ),
        )
        for topic, indexes in _by_topic(offsets).items()
    )
    request = FetchRequest(max_wait=0, min_bytes=0, topics=topics)
    answer = connection.call(fetch.API, request)
    batches = {}
    for topic in answer.responses:
        for data in topic.partitions:
            key, code = (topic.topic, data.partition_index), data.error_code
            header = _header_at(data.records, offsets.get(key, -1))
            if code is ErrorCode.none and header is not None:
                batches[key] = header
            elif code not in _SAYS_ALL:
                errors[key] = refusal_text(code, connection.who, topic.topic, Operation.READ)
    return batches


def _header_at(records: memoryview | bytes | FileSlice | None, offset: int) -> BatchHeader | None:
    """The header of the batch that contains the offset, or of the next one."""
    assert not isinstance(records, FileSlice)  # used only for sending
    position = 0
    while records and position + HEADER_SIZE <= len(records):
        header = read_header(records, position)
        if header.size < HEADER_SIZE:
            return None
        if header.next_offset > offset:
            return header
        position += header.size
    return None


def _by_topic(keys: Iterable[Key]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in keys:
        by_topic.setdefault(topic, []).append(index)
    return by_topic

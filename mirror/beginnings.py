"""Where the copying of a partition goes on: nobody has written that down, both sides are asked.

    the copy ends at X ─▶ is the batch before X the same at the source? ─▶ go on at X
                     └──▶ what else may be wrong is told with both ends, and that partition stops

Rule 1: the last batch of the copy and the one at the source are compared by base offset, length and
        CRC; if they differ, the source is another history than what was copied.
Rule 2: a source that ends before the copy has lost its tail, or is not the one that was copied.
Rule 3: a source that begins behind the copy's end leaves a gap. It is passed over where it was
        accepted (`penstock.mirror.accept.gap`), or the source compacts.
Rule 4: where the source compacts, batches may change: then only the ends count.
Rule 5: what a side does not show, as a right is missing, is no reason to go on without having
        compared.

`decide` is pure; `look` asks one broker of each side, and blocks.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from client.addresses import Address
from client.bootstrap import Access
from client.connection import BrokerConnection
from client.fetch_session import Key
from client.rights import TO_SEE
from mirror.batches import Gap
from mirror.said import said
from wire.acls import Operation
from wire.batch import HEADER_SIZE, BatchHeader, read_header
from wire.errors import ErrorCode
from wire.messages import fetch, list_offsets
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.slices import FileSlice

_GLIMPSE: Final = 4096  # bytes of a batch, for its header
_AT_ONCE: Final = 200  # partitions whose headers are asked for together
_SAYS_ALL: Final = frozenset({ErrorCode.none, ErrorCode.offset_out_of_range})


class Span(NamedTuple):
    """Of a log: its first offset, and the one behind its last."""

    start: int
    end: int


class Both(msgspec.Struct, frozen=True):
    """What both sides say of a partition."""

    source: Span
    target: Span
    next_there: BatchHeader | None = None  # the source's batch at the offset that would come next
    last_there: BatchHeader | None = None  # and the one before that
    last_here: BatchHeader | None = None  # the copy's last


class GoOn(msgspec.Struct, frozen=True):
    """At this offset; over this gap, which was accepted, or is where a copy begins."""

    offset: int
    over: Gap | None = None


class Stop(msgspec.Struct, frozen=True):
    """Nothing can be copied, for this reason; `gap` if that can be accepted."""

    reason: str
    gap: Gap | None = None


class Again(msgspec.Struct, frozen=True):
    """Somebody could not say; ask again."""

    reason: str


Beginning = GoOn | Stop | Again


def decide(both: Both, *, compacts: bool, accepted: int | None, may_pass: bool) -> GoOn | Stop:
    """`accepted`: at this end of the copy a gap may be passed over; `may_pass`: at any."""
    source, target = both.source, both.target
    if source.end < target.end:
        return Stop(
            f"the source went back: it ends at {source.end}, the copy at {target.end}. It has lost "
            "its tail, or is not the log that was copied"
        )
    begins = source.start if both.next_there is None else both.next_there.base_offset
    if begins > target.end:
        gap = Gap(target.end, begins)
        offset = max(begins, source.start)  # a log may start within its first batch
        if compacts:
            return GoOn(offset)
        if may_pass or accepted == target.end:
            return GoOn(offset, gap)
        return Stop(
            f"gap: the copy ends at {gap.end}, the source's next batch begins at {gap.begins}: "
            "what lay between is gone there. `penstock mirror --accept-gap` goes on behind it",
            gap,
        )
    here, there = both.last_here, both.last_there
    if here is not None and there is not None and not compacts and not is_same(here, there):
        return Stop(
            f"differs: the copy's last batch is at offset {here.base_offset} with CRC "
            f"{here.crc:#010x} and {here.size} bytes, the source's at {there.base_offset} with CRC "
            f"{there.crc:#010x} and {there.size} bytes: the source is another history"
        )
    return GoOn(max(target.end, source.start))


def is_same(one: BatchHeader, other: BatchHeader) -> bool:
    """Whether they are of one batch, as each side has it."""
    return (one.base_offset, one.length, one.crc) == (other.base_offset, other.length, other.crc)


class Wanted(NamedTuple):
    """A partition by its names, and what may be."""

    here: Key
    there: Key
    compacts: bool
    accepted: int | None
    has_gap: bool = False  # the source's next batch was seen to begin behind the copy's end
    may_pass: bool = False  # any gap


def look(
    source: tuple[Address, Access],
    target: tuple[Address, Access],
    partitions: Sequence[Wanted],
    client_id: str,
) -> dict[Key, tuple[Beginning, Both | None]]:
    """Where each goes on, by its name at the target, and what both sides have. Blocks; asks one
    broker of each side, which lead them all. Raises ClientError."""
    there = BrokerConnection(source[0], client_id, source[1])
    try:
        here = BrokerConnection(target[0], client_id, target[1])
        try:
            return _look(there, here, partitions)
        finally:
            here.close()
    finally:
        there.close()


def _look(
    source: BrokerConnection, target: BrokerConnection, partitions: Sequence[Wanted]
) -> dict[Key, tuple[Beginning, Both | None]]:
    there = spans(source, [each.there for each in partitions])
    here = spans(target, [each.here for each in partitions])
    found: dict[Key, tuple[Beginning, Both | None]] = {}
    known: list[tuple[Wanted, Span, Span]] = []
    for each in partitions:
        theirs, ours = there[each.there], here[each.here]
        if isinstance(theirs, str):
            found[each.here] = Again(f"the source says: {theirs}"), None
        elif isinstance(ours, str):
            found[each.here] = Again(f"the target says: {ours}"), None
        else:
            known.append((each, theirs, ours))
    last_here, hidden_here = _headers(
        target, {each.here: ours.end - 1 for each, _, ours in known if ours.end > ours.start}
    )
    last_there, hidden_there = _headers(
        source,
        {
            each.there: ours.end - 1
            for each, theirs, ours in known
            if theirs.start < ours.end <= theirs.end
        },
    )
    next_there, hidden_next = _headers(
        source,
        {
            each.there: max(theirs.start, ours.end)
            for each, theirs, ours in known
            if theirs.end > max(theirs.start, ours.end)
            and (each.has_gap or theirs.start > ours.end)
        },
    )
    hidden_there |= hidden_next
    for each, theirs, ours in known:
        if each.there in hidden_there:
            found[each.here] = Again(f"the source says: {hidden_there[each.there]}"), None
            continue
        if each.here in hidden_here:
            found[each.here] = Again(f"the target says: {hidden_here[each.here]}"), None
            continue
        both = Both(
            theirs,
            ours,
            next_there=next_there.get(each.there),
            last_there=last_there.get(each.there),
            last_here=last_here.get(each.here),
        )
        decided = decide(
            both, compacts=each.compacts, accepted=each.accepted, may_pass=each.may_pass
        )
        found[each.here] = decided, both
    return found


def spans(connection: BrokerConnection, keys: Iterable[Key]) -> dict[Key, Span | str]:
    """Or what the broker says instead."""
    wanted = list(keys)
    starts = _offsets(connection, wanted, list_offsets.EARLIEST)
    ends = _offsets(connection, wanted, list_offsets.LATEST)
    found: dict[Key, Span | str] = {}
    for key in wanted:
        start, end = starts.get(key, "nothing"), ends.get(key, "nothing")
        if isinstance(start, str):
            found[key] = start
        elif isinstance(end, str):
            found[key] = end
        else:
            found[key] = Span(start, end)
    return found


class NotShown(Exception):
    """Why a broker does not show a batch."""


def source_ends(
    source: tuple[Address, Access], keys: Iterable[Key], client_id: str
) -> dict[Key, int]:
    """Where these end now, as far as their leader says. Blocks; raises ClientError."""
    connection = BrokerConnection(source[0], client_id, source[1])
    try:
        said_of = _offsets(connection, list(keys), list_offsets.LATEST)
    finally:
        connection.close()
    return {key: end for key, end in said_of.items() if not isinstance(end, str)}


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
        (topic.name, each.partition_index): (
            each.offset
            if each.error_code is ErrorCode.none
            else said(each.error_code, connection.who, topic.name, *TO_SEE)
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def batch_at(connection: BrokerConnection, key: Key, offset: int) -> BatchHeader:
    """The header of the batch that the offset is in, or that comes next. Raises NotShown."""
    hidden: dict[Key, str] = {}
    found = _glimpses(connection, {key: offset}, hidden).get(key)
    if found is None:
        raise NotShown(hidden.get(key, f"no batch is there at offset {offset} or behind it"))
    return found


def headers_at(connection: BrokerConnection, offsets: Mapping[Key, int]) -> dict[Key, BatchHeader]:
    """Of the batches at these offsets, as far as there are any."""
    found, _ = _headers(connection, offsets)
    return found


def _headers(
    connection: BrokerConnection, offsets: Mapping[Key, int]
) -> tuple[dict[Key, BatchHeader], dict[Key, str]]:
    """The same, and why some are not shown."""
    found: dict[Key, BatchHeader] = {}
    hidden: dict[Key, str] = {}
    keys = list(offsets)
    for first in range(0, len(keys), _AT_ONCE):
        some = {key: offsets[key] for key in keys[first : first + _AT_ONCE]}
        found |= _glimpses(connection, some, hidden)
    # Where brokers give whole batches alone, only the first that is asked for may be larger.
    for key in keys:
        if key not in found and key not in hidden:
            found |= _glimpses(connection, {key: offsets[key]}, hidden)
    return found, hidden


def _glimpses(
    connection: BrokerConnection, offsets: Mapping[Key, int], hidden: dict[Key, str]
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
    found = {}
    for topic in answer.responses:
        for data in topic.partitions:
            key, code = (topic.topic, data.partition_index), data.error_code
            header = _header_at(data.records, offsets.get(key, -1))
            if code is ErrorCode.none and header is not None:
                found[key] = header
            elif code not in _SAYS_ALL:
                hidden[key] = said(code, connection.who, topic.topic, Operation.READ)
    return found


def _header_at(records: memoryview | bytes | FileSlice | None, offset: int) -> BatchHeader | None:
    """Of the batch that the offset is in, or that comes next."""
    assert not isinstance(records, FileSlice)  # those only leave
    at = 0
    while records and at + HEADER_SIZE <= len(records):
        header = read_header(records, at)
        if header.size < HEADER_SIZE:
            return None
        if header.next_offset > offset:
            return header
        at += header.size
    return None


def _by_topic(keys: Iterable[Key]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in keys:
        found.setdefault(topic, []).append(index)
    return found

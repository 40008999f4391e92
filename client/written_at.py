"""When the records at given offsets were written, by their timestamps: of many partitions at once.

Rule 1: a request asks for a little of each of many partitions. Brokers give a batch that is larger
        than that only to the first partition of an answer, so the rest is asked again for more.
Rule 2: no more bytes are fetched than the caller allows. What they do not reach is not in what is
        found. What cannot be read is there as Unknown; neither keeps others from being found.

Nothing but the one record is looked at, and what was fetched is not kept.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
from crc32c import crc32c

from client.committed import READ_UNCOMMITTED
from client.connection import BrokerConnection
from client.delivery import TopicPartition
from client.errors import ClientError, ErrorCode, check
from client.rights import on_topic
from wire.acls import Operation
from wire.batch import CRC_START, MAGIC, BatchHeader, headers
from wire.errors import BatchError
from wire.messages import fetch
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from wire.records import records
from wire.slices import FileSlice

AN_ANSWER: Final = 8 * 1024 * 1024
_PORTIONS: Final = (16 * 1024, 256 * 1024, 2 * 1024 * 1024)
_IDLE_ROUNDS: Final = 3  # in which nothing came: brokers that throttle give empty answers


class Place(NamedTuple):
    """An offset in a partition."""

    target: TopicPartition
    offset: int


class NothingLeft(msgspec.Struct, frozen=True):
    """No record is at the offset or behind it."""


class Unknown(msgspec.Struct, frozen=True):
    """`why` completes the sentence: it is not known when that was written, …"""

    why: str


Written = int | NothingLeft | Unknown  # milliseconds


class _Further(msgspec.Struct, frozen=True):
    """No record up to here: the next batch tells."""

    offset: int


def written_at(
    connection: BrokerConnection,
    who: str,
    places: Collection[Place],
    *,
    most_bytes: int,
    within: float,
) -> dict[Place, Written]:
    """Of the first record at each offset or behind it, all in partitions that this broker leads, as
    far as `most_bytes` reach.

    Raises a ClientError if the broker cannot be asked: then nothing is known of any.
    """
    found: dict[Place, Written] = {}
    waiting = {place: place.offset for place in places}
    portions, idle, left = iter(_PORTIONS), 0, most_bytes
    portion = next(portions)
    while waiting and idle < _IDLE_ROUNDS and left > 0:
        at_first, moved = len(waiting), False
        for asked in _requests(waiting, portion):
            if left <= 0:
                break
            answer = connection.call(fetch.API, _request(asked, waiting, portion), within=within)
            check(answer.error_code, f"fetch from {connection.address}")
            for topic in answer.responses:
                for data in topic.partitions:
                    target = TopicPartition(topic.topic, data.partition_index)
                    if (place := asked.get(target)) is None:
                        continue
                    left -= len(_bytes_of(data))
                    match _judged(target, data, waiting[place], who):
                        case None:
                            continue
                        case _Further(offset):
                            waiting[place] = offset
                        case written:
                            found[place] = written
                            del waiting[place]
                    moved = True
        idle = 0 if moved else idle + 1
        if len(waiting) > at_first // 2:
            portion = next(portions, portion)
    return found


def in_layers(places: Iterable[Place]) -> list[list[Place]]:
    """A partition once in each, as brokers want it of a request."""
    layers: list[list[Place]] = []
    at: dict[TopicPartition, int] = {}
    for place in sorted(places):
        layer = at[place.target] = at.get(place.target, -1) + 1
        if layer == len(layers):
            layers.append([])
        layers[layer].append(place)
    return layers


def _requests(waiting: Mapping[Place, int], portion: int) -> Iterator[dict[TopicPartition, Place]]:
    """What to ask for in one request each: a partition once, and as much as an answer holds."""
    many = max(1, AN_ANSWER // portion)
    for places in in_layers(waiting):
        for start in range(0, len(places), many):
            yield {place.target: place for place in places[start : start + many]}


def _request(
    asked: Mapping[TopicPartition, Place], waiting: Mapping[Place, int], portion: int
) -> FetchRequest:
    topics: dict[str, list[FetchPartition]] = {}
    for target, place in asked.items():
        wanted = FetchPartition(
            partition=target.partition, fetch_offset=waiting[place], partition_max_bytes=portion
        )
        topics.setdefault(target.topic, []).append(wanted)
    return FetchRequest(
        max_wait=0,
        min_bytes=0,
        max_bytes=AN_ANSWER,
        isolation_level=READ_UNCOMMITTED,
        topics=tuple(
            FetchTopic(topic=name, partitions=tuple(wanted)) for name, wanted in topics.items()
        ),
    )


def _bytes_of(data: PartitionData) -> memoryview:
    assert not isinstance(data.records, FileSlice)  # those only leave
    return memoryview(data.records or b"")


def _judged(
    target: TopicPartition, data: PartitionData, offset: int, who: str
) -> Written | _Further | None:
    """None: the answer says nothing, as others have filled it."""
    try:
        check(data.error_code, str(target), needs=on_topic(who, target.topic, Operation.READ))
    except ClientError as error:
        gone = data.error_code is ErrorCode.offset_out_of_range
        return Unknown("as it was removed meanwhile" if gone else f"as {error}")
    began_at = offset
    view = _bytes_of(data)
    for start, header in headers(view):
        if header.next_offset <= offset:
            continue
        batch = view[start : start + header.size]
        if header.magic != MAGIC:
            return Unknown(f"as it is in record format {header.magic}")
        if crc32c(batch[CRC_START:]) != header.crc:
            return Unknown("as the batch is damaged")
        if (timestamp := _first_timestamp(batch, header, offset)) is not None:
            return timestamp if timestamp >= 0 else Unknown("as it has no timestamp")
        offset = header.next_offset
    if offset >= data.high_watermark:
        return NothingLeft()
    return _Further(offset) if offset > began_at else None


def _first_timestamp(batch: memoryview, header: BatchHeader, offset: int) -> int | None:
    """None if compaction has left no record from there on."""
    try:
        left = (record.timestamp for record in records(batch) if record.offset >= offset)
        return next(left, None)
    except BatchError:  # brokers do not look inside either
        return header.max_timestamp

"""Reads the times at which the records at given offsets were written, from their timestamps: in
many partitions at once.

Rule 1: a request fetches a little from each of many partitions. Brokers return a larger batch only
        for the first partition, so the others are requested again with more.
Rule 2: no more bytes are fetched than the caller allows. Records beyond that are missing from the
        result. A record that cannot be read is Unknown; neither affects the others.

Only the one record is examined, and fetched bytes are not kept.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
from crc32c import crc32c

from client.connection.connection import BrokerConnection
from client.errors import ClientError, ErrorCode, check
from client.producing.delivery import TopicPartition
from client.reading.committed import READ_UNCOMMITTED
from client.rights import on_topic
from wire.acls import Operation
from wire.errors import BatchError
from wire.framing.slices import FileSlice
from wire.messages import fetch
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from wire.record_batches.batch import CRC_START, MAGIC, BatchHeader, headers
from wire.record_batches.records import records

AN_ANSWER: Final = 8 * 1024 * 1024
_PORTIONS: Final = (16 * 1024, 256 * 1024, 2 * 1024 * 1024)
_IDLE_ROUNDS: Final = 3  # rounds without data: brokers that throttle return empty responses


class PartitionOffset(NamedTuple):
    """An offset in a partition."""

    target: TopicPartition
    offset: int


class NothingLeft(msgspec.Struct, frozen=True):
    """The result where no record is left at the offset or after it."""


class Unknown(msgspec.Struct, frozen=True):
    """The result where the time cannot be read. `why` continues the sentence "the age of the first
    unread record is unknown: …"."""

    why: str


Written = int | NothingLeft | Unknown  # milliseconds


class _Further(msgspec.Struct, frozen=True):
    """The result where there is no record up to this offset, so that the next batch must be
    read."""

    offset: int


def written_at(
    connection: BrokerConnection,
    who: str,
    places: Collection[PartitionOffset],
    *,
    most_bytes: int,
    within: float,
) -> dict[PartitionOffset, Written]:
    """Returns the timestamp of the first record at each place or after it, in partitions that this
    broker leads, until `most_bytes` are read.

    Raises a ClientError if the broker cannot be asked; all results are then lost.
    """
    written_times: dict[PartitionOffset, Written] = {}
    next_offsets = {place: place.offset for place in places}
    portions, idle_rounds, remaining_bytes = iter(_PORTIONS), 0, most_bytes
    portion = next(portions)
    while next_offsets and idle_rounds < _IDLE_ROUNDS and remaining_bytes > 0:
        old_count, has_moved = len(next_offsets), False
        for places_by_target in _requests(next_offsets, portion):
            if remaining_bytes <= 0:
                break
            response = connection.call(
                fetch.API, _request(places_by_target, next_offsets, portion), within=within
            )
            check(response.error_code, f"fetch from {connection.address}")
            for topic in response.responses:
                for data in topic.partitions:
                    target = TopicPartition(topic.topic, data.partition_index)
                    if (place := places_by_target.get(target)) is None:
                        continue
                    remaining_bytes -= len(_bytes_of(data))
                    match _judged(target, data, next_offsets[place], who):
                        case None:
                            continue
                        case _Further(offset):
                            next_offsets[place] = offset
                        case written:
                            written_times[place] = written
                            del next_offsets[place]
                    has_moved = True
        idle_rounds = 0 if has_moved else idle_rounds + 1
        if len(next_offsets) > old_count // 2:
            portion = next(portions, portion)
    return written_times


def in_layers(places: Iterable[PartitionOffset]) -> list[list[PartitionOffset]]:
    """Splits places into layers that have each partition at most once, as a request requires."""
    layers: list[list[PartitionOffset]] = []
    layer_index: dict[TopicPartition, int] = {}
    for place in sorted(places):
        layer = layer_index[place.target] = layer_index.get(place.target, -1) + 1
        if layer == len(layers):
            layers.append([])
        layers[layer].append(place)
    return layers


def _requests(
    waiting: Mapping[PartitionOffset, int], portion: int
) -> Iterator[dict[TopicPartition, PartitionOffset]]:
    """Yields the places for each request: no partition twice, and no more than an answer holds."""
    places_per_request = max(1, AN_ANSWER // portion)
    for layer in in_layers(waiting):
        for start in range(0, len(layer), places_per_request):
            yield {place.target: place for place in layer[start : start + places_per_request]}


def _request(
    places_by_target: Mapping[TopicPartition, PartitionOffset],
    waiting: Mapping[PartitionOffset, int],
    portion: int,
) -> FetchRequest:
    topics: dict[str, list[FetchPartition]] = {}
    for target, place in places_by_target.items():
        fetch_partition = FetchPartition(
            partition=target.partition, fetch_offset=waiting[place], partition_max_bytes=portion
        )
        topics.setdefault(target.topic, []).append(fetch_partition)
    return FetchRequest(
        max_wait=0,
        min_bytes=0,
        max_bytes=AN_ANSWER,
        isolation_level=READ_UNCOMMITTED,
        topics=tuple(
            FetchTopic(topic=name, partitions=tuple(fetch_partition))
            for name, fetch_partition in topics.items()
        ),
    )


def _bytes_of(data: PartitionData) -> memoryview:
    assert not isinstance(data.records, FileSlice)  # only the broker sends these
    return memoryview(data.records or b"")


def _judged(
    target: TopicPartition, data: PartitionData, offset: int, who: str
) -> Written | _Further | None:
    """Returns None if the answer has no data for the partition, because others filled it."""
    try:
        check(data.error_code, str(target), needs=on_topic(who, target.topic, Operation.READ))
    except ClientError as error:
        is_gone = data.error_code is ErrorCode.offset_out_of_range
        return Unknown("just deleted" if is_gone else str(error))
    start_offset = offset
    view = _bytes_of(data)
    for start, header in headers(view):
        if header.next_offset <= offset:
            continue
        batch = view[start : start + header.size]
        if header.magic != MAGIC:
            return Unknown(f"record format {header.magic}")
        if crc32c(batch[CRC_START:]) != header.crc:
            return Unknown("the batch is damaged")
        if (timestamp := _first_timestamp(batch, header, offset)) is not None:
            return timestamp if timestamp >= 0 else Unknown("no timestamp")
        offset = header.next_offset
    if offset >= data.high_watermark:
        return NothingLeft()
    return _Further(offset) if offset > start_offset else None


def _first_timestamp(batch: memoryview, header: BatchHeader, offset: int) -> int | None:
    """Returns None if compaction has left no record from the offset on."""
    try:
        timestamps = (record.timestamp for record in records(batch) if record.offset >= offset)
        return next(timestamps, None)
    except BatchError:  # brokers use the header too
        return header.max_timestamp

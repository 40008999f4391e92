"""Searches a partition's log for batches, by their producer's numbers.

Even after a leader has forgotten a producer, batches' headers show producer id, epoch and base
sequence. Given an offset before which a batch cannot lie, the search reads from there to the end,
or until all batches are found. That may be many gigabytes, and takes as long as consuming them.

Another client may have written under these numbers. So a batch with a different CRC is another
batch, unless the broker has rewritten it, with timestamps or a compression of its own or fewer
records.

Only what consumers can see is searched, so what is found is durable.
"""

from collections.abc import Callable, Collection
from typing import Final

import msgspec

from client.connection.brokers import Brokers
from client.errors import ConnectionLost, ErrorCode, Refused
from client.producing.delivery import Stamped, TopicPartition
from client.reading.fetcher import Fetcher
from client.reading.offsets import offsets_at
from wire.messages.list_offsets import EARLIEST, LATEST
from wire.record_batches.batch import BatchHeader, read_header

_POLL_SECONDS: Final = 0.5

Numbers = tuple[int, int, int, int]  # producer id, epoch, base sequence, number of records


class BatchLocation(msgspec.Struct, frozen=True):
    """The position of a batch in the log."""

    base_offset: int
    leader_epoch: int


class Searched(msgspec.Struct, frozen=True):
    """The batches found between two offsets. The log before `begins` was deleted."""

    found: dict[Stamped, BatchLocation]
    begins: int
    end: int


def search(
    brokers: Brokers,
    target: TopicPartition,
    batches: Collection[Stamped],
    offset: int,
    *,
    goes_on: Callable[[], bool] = lambda: True,
) -> Searched:
    """Searches from `offset` to the current end of the log.

    If the log does not reach `offset` it is another log, and is searched from its start. Raises
    ConnectionLost as soon as `goes_on` returns False, and the errors of reading.
    """
    missing_batches = {_numbers(stamped_batch): stamped_batch for stamped_batch in batches}
    locations: dict[Stamped, BatchLocation] = {}
    first_offset, end = _bounds(brokers, target)
    begin_offset = first_offset if offset > end else max(offset, first_offset)
    fetcher = Fetcher(brokers, target.topic, {target.partition: begin_offset})
    try:
        while missing_batches and fetcher.positions[target.partition] < end:
            if not goes_on():
                raise ConnectionLost(f"{target}: the search was stopped")
            try:
                fetched_batches = fetcher.poll(_POLL_SECONDS)
            except Refused as error:
                if error.code is not ErrorCode.offset_out_of_range:
                    raise
                first_offset, end = _bounds(brokers, target)
                begin_offset = fetcher.positions[target.partition] = first_offset
                continue
            for batch in fetched_batches:
                numbers = _numbers_in_log(batch.header)
                if (stamped_batch := missing_batches.get(numbers)) and not _is_other(
                    stamped_batch, batch.header
                ):
                    location = BatchLocation(batch.header.base_offset, batch.header.leader_epoch)
                    locations[missing_batches.pop(numbers)] = location
    finally:
        fetcher.close()
    return Searched(locations, begin_offset, end)


def _bounds(brokers: Brokers, target: TopicPartition) -> tuple[int, int]:
    partitions = [target.partition]
    first_offsets = offsets_at(brokers, target.topic, partitions, EARLIEST)
    end = offsets_at(brokers, target.topic, partitions, LATEST)
    return first_offsets[target.partition], end[target.partition]


def _numbers(batch: Stamped) -> Numbers:
    return *batch.identity, batch.base_sequence, batch.batch.records


def _numbers_in_log(header: BatchHeader) -> Numbers:
    return (
        *(header.producer_id, header.producer_epoch, header.base_sequence),
        header.last_offset_delta + 1,
    )


def _is_other(batch: Stamped, header: BatchHeader) -> bool:
    batch_header = read_header(batch.head)
    is_rewritten = (batch_header.attributes, batch_header.record_count) != (
        header.attributes,
        header.record_count,
    )
    return not is_rewritten and batch_header.crc != header.crc

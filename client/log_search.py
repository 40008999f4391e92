"""Batches looked for in the log itself, by the numbers of their producer.

What a leader has forgotten of a producer still stands in the headers of its batches: producer id,
epoch, base sequence. Whoever knows an offset before which a batch cannot be reads from there to the
end, or until all are found. That may be many gigabytes, and takes as long as consuming them.

Somebody else may have written under these numbers: a batch with another CRC is another one, unless
the broker has rewritten it, with its own times or compression or fewer records.

Only what consumers are shown is looked at: what is found is there to stay.
"""

from collections.abc import Callable, Collection
from typing import Final

import msgspec

from client.brokers import Brokers
from client.delivery import Stamped, TopicPartition
from client.errors import ConnectionLost, ErrorCode, Refused
from client.fetcher import Fetcher
from client.offsets import offsets_at
from wire.batch import BatchHeader, read_header
from wire.messages.list_offsets import EARLIEST, LATEST

_POLL_SECONDS: Final = 0.5

Numbers = tuple[int, int, int, int]  # producer id, epoch, base sequence, how many records


class BatchLocation(msgspec.Struct, frozen=True):
    """Where a batch lies in the log."""

    base_offset: int
    leader_epoch: int


class Searched(msgspec.Struct, frozen=True):
    """What was found between two offsets. What lay before `begins` is not there any more."""

    found: dict[Stamped, BatchLocation]
    begins: int
    end: int


def search(
    brokers: Brokers,
    target: TopicPartition,
    wanted: Collection[Stamped],
    offset: int,
    *,
    goes_on: Callable[[], bool] = lambda: True,
) -> Searched:
    """Looks from `offset` on to where the log ends now.

    An offset that the log does not reach is one of another log: then all of it is looked at.
    Raises ConnectionLost as soon as it does not go on, and whatever reading raises.
    """
    missing = {_numbers(each): each for each in wanted}
    found: dict[Stamped, BatchLocation] = {}
    first, end = _bounds(brokers, target)
    begins = first if offset > end else max(offset, first)
    fetcher = Fetcher(brokers, target.topic, {target.partition: begins})
    try:
        while missing and fetcher.positions[target.partition] < end:
            if not goes_on():
                raise ConnectionLost(f"{target}: the search was given up")
            try:
                batches = fetcher.poll(_POLL_SECONDS)
            except Refused as error:
                if error.code is not ErrorCode.offset_out_of_range:
                    raise
                first, end = _bounds(brokers, target)
                begins = fetcher.positions[target.partition] = first
                continue
            for each in batches:
                numbers = _numbers_in_log(each.header)
                if (stamped := missing.get(numbers)) and not _is_other(stamped, each.header):
                    sighting = BatchLocation(each.header.base_offset, each.header.leader_epoch)
                    found[missing.pop(numbers)] = sighting
    finally:
        fetcher.close()
    return Searched(found, begins, end)


def _bounds(brokers: Brokers, target: TopicPartition) -> tuple[int, int]:
    partitions = [target.partition]
    first = offsets_at(brokers, target.topic, partitions, EARLIEST)
    end = offsets_at(brokers, target.topic, partitions, LATEST)
    return first[target.partition], end[target.partition]


def _numbers(batch: Stamped) -> Numbers:
    return *batch.identity, batch.base_sequence, batch.batch.records


def _numbers_in_log(header: BatchHeader) -> Numbers:
    return (
        *(header.producer_id, header.producer_epoch, header.base_sequence),
        header.last_offset_delta + 1,
    )


def _is_other(batch: Stamped, there: BatchHeader) -> bool:
    ours = read_header(batch.head)
    is_rewritten = (ours.attributes, ours.record_count) != (there.attributes, there.record_count)
    return not is_rewritten and ours.crc != there.crc

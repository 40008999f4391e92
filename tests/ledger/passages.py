"""Passages of agents, held against the batches that the log has at their offsets, by hashlib alone:
a second opinion beside the programs that state and compare digests.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from client.connection.brokers import Brokers
from client.producing.delivery import TopicPartition
from client.reading.fetcher import FetchedBatch, Fetcher
from client.reading.offsets import Beginning, End, start_offsets

Json = Mapping[str, Any]

ATTRIBUTES: Final = 21  # where they begin in a batch: after base offset, length, epoch, magic, CRC


def batches_in_log(brokers: Brokers, target: TopicPartition) -> list[FetchedBatch]:
    """All that are there, in the order of their offsets, as a fetch returns them."""
    (end,) = start_offsets(brokers, target.topic, [target.partition], End()).values()
    starts = start_offsets(brokers, target.topic, [target.partition], Beginning())
    fetcher = Fetcher(brokers, target.topic, starts)
    found: list[FetchedBatch] = []
    try:
        while fetcher.positions[target.partition] < end:
            found += fetcher.poll(1)
    finally:
        fetcher.close()
    return found


def passages_about(entries: Iterable[Json], target: TopicPartition) -> list[Json]:
    return [
        passage
        for entry in entries
        for passage in entry["passages"]
        if (passage["topic"], passage["partition"]) == target
    ]


def digest_in_log(passage: Json, log: Sequence[FetchedBatch]) -> bytes:
    """What the passage should state about the batches at its offsets, all of which are there."""
    digests: list[bytes] = []
    for stretch in passage["offsets"]:
        at, end = stretch["first"], stretch["first"] + stretch["count"]
        for batch in log:
            if at <= batch.header.base_offset < end:
                assert batch.header.base_offset == at
                digests.append(sha256(bytes(batch.data)[ATTRIBUTES:]).digest())
                at = batch.header.next_offset
        assert at == end
    return sha256(b"".join(digests)).digest()[:16]

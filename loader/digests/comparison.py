"""Compares batches with the digests that agents have signed of them. Pure.

Rule 1: a passage is compared once all of its offsets have been read. If its offsets have been read,
        and batches there begin or end at other offsets than its stretches, that is a difference,
        too.
Rule 2: what any agent has signed about a batch must be true. Two agents cannot both be right about
        one batch: it differs from what one of them has signed, whoever that is.
Rule 3: offsets that were read and have no batch any more were compared by an earlier load, or have
        waited too long. Nothing is said about a passage with such offsets, nor about one with a
        batch that compaction has rewritten.
Rule 4: offsets count as compared only if all batches of a passage were there with its digest. In
        what this load itself has read, offsets without a batch were compacted, and do not matter.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from ground.intervals import Interval
from ledger.passage_digests import digest_of_passage
from ledger.signed_passages import SignedPassage
from loader.values.batch_digests import UNKNOWN_CONTENT, ReadBatch
from loader.values.tables import HOUR_MILLIS, log_name

_MOST: Final = 1_000  # differences that are told of a run


class Log(NamedTuple):
    """A partition's log. `topic_id` is as the ledger has it."""

    topic: str
    topic_id: str
    partition: int


class Difference(msgspec.Struct, frozen=True):
    """A stretch of a passage whose batches are not those that its agent has signed. `times` are
    spans of the events' times, by the agent and by the batches."""

    log: Log
    offsets: Interval
    host: str
    journal: str
    times: tuple[Interval, ...]

    @property
    def reason(self) -> str:
        first, end = self.offsets
        return (
            f"not what the agent sent: the SHA-256 of offsets {first} to {end - 1} differs from"
            f" what agent {self.host} has signed"
        )

    def __str__(self) -> str:
        return f"{log_name(self.log.topic, self.log.partition)}: {self.reason}"


class _Result(Enum):
    EQUAL = 1
    DIFFERS = 2
    UNKNOWN = 3


class Comparison(msgspec.Struct):
    """The result for all logs of a table."""

    differences: list[Difference] = []
    compared: dict[Log, list[Interval]] = {}  # offsets that do not differ
    settled: list[SignedPassage] = []  # all that need not be kept
    waiting: dict[Log, list[ReadBatch]] = {}  # batches that no passage has covered yet

    def compare(
        self,
        log: Log,
        batches: Iterable[ReadBatch],
        passages: Iterable[SignedPassage],
        next_offset: int,
        read_from: int = 0,
    ) -> None:
        """Compares the batches of a log that has been read up to `next_offset`, by this load from
        `read_from` on."""
        read = _ReadBatches(sorted(batches))
        for passage in passages:
            if passage.stretches[-1][1] > next_offset:
                continue
            self.settled.append(passage)
            covered = [read.at(stretch) for stretch in passage.stretches]
            overlapping = [batch for part in covered for batch in part]
            if len(self.differences) >= _MOST:
                continue
            result = _result(passage, covered)
            if result is _Result.DIFFERS:
                self.differences += _differences(log, passage, overlapping)
            elif result is _Result.EQUAL or passage.stretches[0][0] >= read_from:
                self.compared.setdefault(log, []).extend(passage.stretches)
        if remaining := read.not_covered():
            self.waiting[log] = remaining


class _ReadBatches:
    """Batches in the order of their offsets."""

    def __init__(self, batches: Sequence[ReadBatch]) -> None:
        self._batches = batches
        self._firsts = [batch.first for batch in batches]
        self._ends = [batch.end for batch in batches]
        self._is_covered = bytearray(len(batches))

    def at(self, offsets: Interval) -> Sequence[ReadBatch]:
        """Returns the batches that overlap these offsets; they count as covered."""
        begin = bisect_right(self._ends, offsets[0])
        end = bisect_left(self._firsts, offsets[1])
        self._is_covered[begin:end] = b"\1" * max(0, end - begin)
        return self._batches[begin:end]

    def not_covered(self) -> list[ReadBatch]:
        return [
            batch
            for batch, is_covered in zip(self._batches, self._is_covered, strict=True)
            if not is_covered
        ]


def _result(passage: SignedPassage, covered: Sequence[Sequence[ReadBatch]]) -> _Result:
    digests: list[bytes] = []
    is_whole = True
    for (first, end), batches in zip(passage.stretches, covered, strict=True):
        next_offset = first
        for batch in batches:
            if batch.first < first or batch.end > end:
                return _Result.DIFFERS
            is_whole &= batch.first == next_offset
            next_offset = batch.end
        is_whole &= next_offset == end
        digests += [batch.digest for batch in batches]
    if not is_whole or UNKNOWN_CONTENT in digests:
        return _Result.UNKNOWN
    is_equal = digest_of_passage(digests) == passage.digest
    return _Result.EQUAL if is_equal else _Result.DIFFERS


def _differences(
    log: Log, passage: SignedPassage, batches: Sequence[ReadBatch]
) -> list[Difference]:
    times = {(hour, hour + HOUR_MILLIS) for hour in passage.hours}
    times |= {(batch.from_time, batch.to_time + 1) for batch in batches}
    return [
        Difference(log, stretch, passage.host, passage.journal, tuple(sorted(times)))
        for stretch in passage.stretches
    ]


def by_log(passages: Iterable[SignedPassage]) -> Mapping[Log, list[SignedPassage]]:
    passages_by_log: dict[Log, list[SignedPassage]] = {}
    for passage in passages:
        log = Log(passage.topic, passage.topic_id, passage.partition)
        passages_by_log.setdefault(log, []).append(passage)
    return passages_by_log

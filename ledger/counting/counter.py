"""Counts batches, and makes ledger entries from the counts, with a journal that keeps each offset
in exactly one entry.

The caller names a partition and passes its batches in ascending order. An entry that is full or
some seconds old is written to the journal, together with the places that the partitions have
reached, and then sent. Unacknowledged entries are sent before more is counted, so there are never
many of them. An entry that the ledger refuses as too large is sent in halves.

After an error, counting continues at the journal's places: what was not journalled is counted
again.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from client.errors import ErrorCode, Refused
from ledger.counting.batches import Counting, Json, PartitionCount, RawHeader, Spoilt
from ledger.counting.entries import (
    MOST_PASSAGES,
    Speaker,
    damaged_of,
    entries_of,
    entry_of,
    halves,
    is_full,
)
from ledger.counting.journal import CountingJournal, CountPosition, PartitionKey
from ledger.counting.sealed_entries import SealedEntry
from wire.mirrored import MirrorOf
from wire.record_batches.batch import LENGTH_PREFIX, BatchHeader, Buffer

_NOWHERE: Final = (-1, -1)
_MANY_BATCHES: Final = 512
_TOO_LARGE: Final = {ErrorCode.message_too_large, ErrorCode.record_list_too_large}
_MOST_SECONDS: Final = 5.0  # of counting that a crash may undo


class Sender(Protocol):
    @property
    def is_connected(self) -> bool:
        """Whether entries can be encoded without asking anybody."""

    def encode(self, entry: Json) -> bytes:
        """Returns the entry as it is written, under the present id of its schema."""

    def send(self, entry: SealedEntry) -> None:
        """Sends the entry, and returns when the ledger has acknowledged it."""


class Withdrawn(NamedTuple):
    """Offsets that a log has lost. The log continues at `resumes`."""

    key: PartitionKey
    leader_epoch: int
    first: int
    offsets: int
    resumes: int
    reason: str

    @property
    def json(self) -> Json:
        return {
            **self.key._asdict(),
            "leader_epoch": self.leader_epoch,
            "first": self.first,
            "count": self.offsets,
            "reason": self.reason,
            "resumes": self.resumes,
        }


class Counter:
    """Counts batches for one process, and sends the entries. For one thread."""

    def __init__(self, journal: CountingJournal, speaker: Speaker, send: Sender) -> None:
        self.counting = Counting(speaker.window_millis)
        self.batches = 0
        self._journal = journal
        self._speaker = speaker
        self._sender = send
        self._counts: list[PartitionCount] = []
        self._weight = 0  # of those that are not the current one
        self._places: dict[PartitionKey, CountPosition] = {}
        self.origins: Mapping[PartitionKey, MirrorOf] = {}
        """The origins of partitions that are mirror copies."""
        self._has_gone_back = False
        self._current: tuple[PartitionKey, PartitionCount] | None = None
        self._at = _NOWHERE  # segment and byte, in the current partition
        self._size = 0  # windows, stretches and batches of the current partition
        self._due = 0.0

    def settle(self) -> None:
        """Sends all unacknowledged entries, and drops counts since the last entry. Raises the
        sender's errors."""
        self._reset()
        sent_entries = 0
        while sent_entries < len(self._journal.pending):
            sealed_entry = self._journal.sealed(sent_entries, self._sender.encode)
            try:
                self._sender.send(sealed_entry)
                sent_entries += 1
            except Refused as error:
                parts = halves(sealed_entry.entry) if error.code in _TOO_LARGE else []
                if not parts:
                    raise
                self._journal.split(sent_entries, parts, self._sender.encode)
        if sent_entries:
            self._journal.acknowledged()

    def place(self, key: PartitionKey) -> CountPosition | None:
        """Returns the position up to which a partition is counted, including counts that are not
        yet journalled; None if unknown."""
        return self._places.get(key) or self._journal.places.get(key)

    def go_back(self, key: PartitionKey, end: int, *, leader_epoch: int) -> None:
        """Continues at `end`, because the log ends before the counted position. New counts from
        `end` on replace earlier entries, so they get a higher leader epoch, even if the log's epoch
        is unchanged."""
        position = self.place(key) or CountPosition(end)
        leader_epoch = max(leader_epoch, position.leader_epoch + 1)
        self._places[key] = CountPosition(end, leader_epoch=leader_epoch, led=position.led)
        self._has_gone_back = True

    def begin_epoch(
        self, key: PartitionKey, leader_epoch: int, first: int, place: CountPosition
    ) -> None:
        """Reports that a leader epoch begins at `first`, and continues counting at `place`. Entries
        about `first` and later offsets under lower epochs are void from now on."""
        self._note_place()
        self._current = None
        self._count(key, first, leader_epoch, None).claim(first, first, 0)
        self._places[key] = place._replace(led=leader_epoch)

    def withdraw(self, losses: Sequence[Withdrawn]) -> None:
        """Reports lost offsets: journals the report at once, and sends it with the next entries.
        Counting continues where the logs resume. Raises OSError; then nothing is recorded.

        Entries under the epochs that begin with the loss stay valid: reporting a loss again only
        repeats the report.
        """
        self._reset()
        positions: dict[PartitionKey, CountPosition] = {}
        for loss in losses:
            position = positions.get(loss.key) or self.place(loss.key)
            is_older = position is not None and position.leader_epoch < loss.leader_epoch
            if position is not None and is_older and position.next_offset > loss.resumes:
                epoch = loss.leader_epoch
                positions[loss.key] = CountPosition(
                    loss.resumes, leader_epoch=epoch, led=position.led
                )
        self._journal_findings(positions, withdrawn=[loss.json for loss in losses])

    def damage(self, batches: Sequence[tuple[PartitionKey, Spoilt]]) -> None:
        """Reports batches that were damaged after they were counted. Journals the report at
        once."""
        damaged_batches = [damaged_of(*key, batch) for key, batch in batches]
        self._journal_findings({}, damaged=damaged_batches)

    def scrubbed(self, logs: Sequence[Json]) -> bool:
        """Journals the last times at which these logs were scrubbed. Does nothing and returns False
        while entries are pending, because the next scrub replaces the report."""
        if self._journal.pending:
            return False
        self._journal_findings({}, scrubbed=logs)
        return True

    def health(self, statement: Json) -> bool:
        """Journals the program's health. Does nothing and returns False while entries are pending,
        because the next report replaces this one."""
        if self._journal.pending:
            return False
        self._journal_findings({}, health=[statement])
        return True

    def _journal_findings(
        self,
        places: Mapping[PartitionKey, CountPosition],
        *,
        withdrawn: Sequence[Json] = (),
        damaged: Sequence[Json] = (),
        scrubbed: Sequence[Json] = (),
        health: Sequence[Json] = (),
    ) -> None:
        entry = entry_of(
            self._speaker,
            seq=self._journal.next_seq,
            now_millis=time.time_ns() // 1_000_000,
            withdrawn=withdrawn,
            damaged=damaged,
            scrubbed=scrubbed,
            health=health,
        )
        self._journal.write([entry], places)

    @property
    def known(self) -> Collection[PartitionKey]:
        return self._journal.places.keys()

    @property
    def source(self) -> str:
        """The source of the counter's entries, which is its name in the ledger."""
        return self._journal.source

    def partition(
        self, key: PartitionKey, first: int, *, leader_epoch: int, seen: int | None
    ) -> None:
        """Starts a partition at offset `first`; the batches that follow belong to it."""
        self._note_place()
        position = self.place(key) or CountPosition(first)
        leader_epoch = max(leader_epoch, position.leader_epoch)
        self._current = key, self._count(key, first, leader_epoch, seen)

    def batch(
        self,
        header: BatchHeader,
        read: Callable[[], Buffer],
        *,
        gaps_are_empty: bool,
        segment: int = -1,
        byte: int = -1,
    ) -> None:
        """Counts one batch, which ends at `byte` of `segment`."""
        key, count = self._named_partition()
        self.counting.count(count, header, read, gaps_are_empty=gaps_are_empty)
        self.batches += 1
        self._at = segment, byte
        self._commit_if_grown(key, count)

    def _commit_if_grown(self, key: PartitionKey, count: PartitionCount) -> None:
        # Only more windows, stretches or many batches make an entry larger.
        size = len(count.windows) + len(count.stretches) + len(count.spoilt)
        size += len(count.batches) // _MANY_BATCHES
        if size != self._size or time.monotonic() > self._due:
            self._size = size
            self._commit_if_full(key, count)

    def run(
        self,
        headers: Sequence[RawHeader],
        read: Callable[[int, int], Buffer],
        *,
        gaps_are_empty: bool,
        segment: int,
        byte: int,
    ) -> None:
        """Counts contiguous batches that begin at `byte` of `segment`; `read` takes a position and
        a length. Batches for which the headers are not enough are found by bisection."""
        key, count = self._named_partition()
        sizes = [header[1] + LENGTH_PREFIX for header in headers]
        end_byte = byte + sum(sizes)
        if self.counting.count_by_headers(count, headers, gaps_are_empty=gaps_are_empty):
            self.batches += len(headers)
            self._at = segment, end_byte
            self._commit_if_grown(key, count)
        elif len(headers) == 1:
            self.batch(
                BatchHeader._make(headers[0]),
                lambda: read(byte, sizes[0]),
                gaps_are_empty=gaps_are_empty,
                segment=segment,
                byte=end_byte,
            )
        else:
            middle = len(headers) // 2
            for part, begin in (
                (headers[:middle], byte),
                (headers[middle:], byte + sum(sizes[:middle])),
            ):
                self.run(part, read, gaps_are_empty=gaps_are_empty, segment=segment, byte=begin)

    def nothing_up_to(self, end: int) -> None:
        """Claims that the offsets from the partition's position to `end` are empty."""
        _, count = self._named_partition()
        if end > count.next_offset:
            count.claim(count.next_offset, end, 0)
            self._at = _NOWHERE

    def spoilt(self, first: int, count: int, reason: str) -> None:
        """Reports a damaged batch at these offsets, and skips it."""
        _, partition_count = self._named_partition()
        partition_count.spoil(first, count, reason)
        self._at = _NOWHERE

    def commit(self, forgotten: Collection[PartitionKey] = ()) -> None:
        """Journals and sends the counts. Raises OSError and the sender's errors."""
        self._note_place()
        entries = entries_of(
            self._counts,
            self._speaker,
            seq=self._journal.next_seq,
            now_millis=time.time_ns() // 1_000_000,
        )
        if entries or forgotten or self._has_gone_back:
            encode = self._sender.encode if self._sender.is_connected else None
            self._journal.write(entries, self._places, forgotten, encode)
        self.settle()

    def _named_partition(self) -> tuple[PartitionKey, PartitionCount]:
        assert self._current is not None, "no partition was named"
        return self._current

    def _note_place(self) -> None:
        """Notes the place that the current partition has reached."""
        if self._current is not None:
            key, count = self._current
            if not count.is_empty:
                last_position = self.place(key) or CountPosition(count.next_offset)
                position = CountPosition(
                    count.next_offset, *self._at, count.leader_epoch, last_position.led
                )
                self._places[key] = position

    def _count(
        self, key: PartitionKey, first: int, leader_epoch: int, seen: int | None
    ) -> PartitionCount:
        if self._counts:
            if self._counts[-1].is_empty:
                self._counts.pop()
            else:
                self._weight += self._counts[-1].weight
        count = PartitionCount(
            topic=key.topic,
            topic_id=key.topic_id,
            partition=key.partition,
            next_offset=first,
            leader_epoch=leader_epoch,
            seen=seen,
            origin=self.origins.get(key),
        )
        self._counts.append(count)
        self._at, self._size = _NOWHERE, 0
        return count

    def _commit_if_full(self, key: PartitionKey, count: PartitionCount) -> None:
        is_count_full = is_full(count, self._weight) or len(self._counts) > MOST_PASSAGES
        if is_count_full or time.monotonic() > self._due:
            self.commit()
            self._current = key, self._count(key, count.next_offset, count.leader_epoch, count.seen)

    def _reset(self) -> None:
        self._counts, self._places = [], {}
        self._has_gone_back = False
        self._weight = 0
        self._current = None
        self._due = time.monotonic() + _MOST_SECONDS

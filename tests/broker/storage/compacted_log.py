"""A compacted log, all that was ever appended to it, and what must be true of it at any time."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from broker.storage import layout
from broker.storage.cleaning.cleaner import Cleaning, CleaningJob, clean
from broker.storage.compaction import compact
from broker.storage.config import LogConfig
from broker.storage.log import Log
from wire.record_batches.batch import headers, read_header
from wire.record_batches.compression import Codec
from wire.record_batches.records import Record, build_batch, records

NOW = 1_790_000_000_000
RETENTION = 1000
CONFIG = LogConfig(
    compact=True,
    delete=False,
    segment_bytes=600,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=RETENTION,
)


async def inline(job: CleaningJob) -> Cleaning:
    return clean(job)


def small_map(job: CleaningJob) -> Coroutine[Any, Any, Cleaning]:
    return inline(replace(job, map_bytes=200))


def flush(log: Log) -> None:
    ticket = log.begin_flush()
    if ticket is not None:
        ticket.run()
        log.complete_flush(ticket)


def stored(log: Log) -> list[Record]:
    """Every record that a consumer of the log is given."""
    found, offset = [], log.start_offset
    while (part := log.read(offset, 300)) is not None:
        content = os.pread(part.file.fileno(), part.length, part.position)
        last = list(headers(content))[-1][1]
        # A client would ask again for what begins with a batch that has nothing for it.
        assert last.record_count or last.next_offset == log.exposed_offset
        for at, header in headers(content):
            found += [r for r in records(content[at : at + header.size]) if r.offset >= offset]
            offset = header.next_offset
    return found


def view(found: list[Record]) -> dict[bytes, bytes]:
    """What someone knows who has read these records and keeps the last value of each key."""
    known: dict[bytes, bytes] = {}
    for record in found:
        assert record.key is not None
        if record.value is None:
            known.pop(record.key, None)
        else:
            known[record.key] = record.value
    return known


@dataclass
class Story:
    """A log, what was ever appended to it, and a clock."""

    directory: Path
    log: Log = field(init=False)
    now: int = NOW
    first_dirty: int = 0
    appended: dict[int, Record] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    deleted_at: dict[int, int] = field(default_factory=dict)
    """When a tombstone was first cleaned."""

    def __post_init__(self) -> None:
        self.log = Log.create(self.directory / "t-0", UUID(int=1), CONFIG)

    def append(
        self, pairs: list[tuple[int, bytes | None]], codec: Codec, producer: int = -1
    ) -> None:
        base = self.log.end_offset
        sequence = self.sequences.get(producer, 0)
        messages = [
            Record(i, base + i, b"key-%d" % key, value and value * 20, (("n", b"%d" % i),))
            for i, (key, value) in enumerate(pairs)
        ]
        batch = bytearray(
            build_batch(
                messages,
                codec=codec,
                producer_id=producer,
                producer_epoch=0 if producer >= 0 else -1,
                base_sequence=sequence if producer >= 0 else -1,
            )
        )
        self.log.append(memoryview(batch), read_header(batch), 0, self.now)
        self.sequences[producer] = sequence + len(pairs)
        for message in messages:
            self.appended[base + message.offset] = message._replace(offset=base + message.offset)

    def compact(self, clean: Callable[[CleaningJob], Coroutine[Any, Any, Cleaning]]) -> None:
        cleaning = asyncio.run(compact(self.log, self.first_dirty, self.now, clean))
        if cleaning is not None:
            self.first_dirty = cleaning.cleaned_to
            for offset, record in self.appended.items():
                if offset < cleaning.cleaned_to and record.value is None:
                    self.deleted_at.setdefault(offset, self.now)

    def reopen(self, directory: Path | None = None) -> Log:
        return Log.open(
            directory or self.log.directory,
            CONFIG,
            recovery_point=self.log.recovery_point,
            start_offset=0,
            clean=False,
            now_ms=self.now,
        )

    def check(self) -> None:
        """Nothing has changed but that records are gone that may be gone, and should."""
        flush(self.log)
        assert self.log.end_offset == len(self.appended)
        found = stored(self.log)
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        assert found == [self.appended[offset] for offset in offsets]
        everything = [self.appended[offset] for offset in sorted(self.appended)]
        assert view(found) == view(everything)
        last = {record.key: record.offset for record in everything}
        last_cleaned = {r.key: r.offset for r in everything if r.offset < self.first_dirty}
        for record in everything:
            if record.offset in offsets:
                # What was cleaned holds each key once.
                assert last_cleaned.get(record.key, -1) <= record.offset
            elif last[record.key] == record.offset:
                # A key that is gone was deleted, and consumers had time to see that.
                assert record.value is None
                assert self.now - self.deleted_at[record.offset] >= RETENTION
        described = {each.producer_id: each for each in self.log.producers.describe()}
        for producer, sequence in self.sequences.items():
            if producer >= 0:
                assert described[producer].last_sequence == sequence - 1
                assert last_sequence_in(self.log, producer) == sequence - 1


def last_sequence_in(log: Log, producer: int) -> int:
    """As it follows from the batches alone."""
    sequence = -1
    for path in sorted(log.directory.glob("*" + layout.LOG)):
        for _, header in headers(path.read_bytes()):
            if header.producer_id == producer:
                sequence = header.last_sequence
    return sequence


def filled(directory: Path) -> Story:
    """A log of several sealed segments with a lot to clean."""
    story = Story(directory)
    for i in range(40):
        story.append([(i % 5, b"value"), (i % 3, None)], Codec(i % 5))
    flush(story.log)
    return story


def names(log: Log) -> set[str]:
    return {path.name for path in log.directory.iterdir()}

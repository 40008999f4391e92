"""Cleans sealed segments of a compacted log: keeps the last record of each key.

The rules are Kafka's:

Rule 1: a record is removed if a later one of those considered has its key. Records after the last
        batch considered stay. Offsets never change.
Rule 2: a tombstone (no value) that nothing supersedes gets a horizon when it is first cleaned, and
        is removed when it is cleaned after that. The horizon is kept in its batch, as the base
        timestamp.
Rule 3: a record without a key is removed: it can never be superseded.
Rule 4: a batch keeps its base offset, last offset, producer, sequence, epoch and codec. One that
        has lost all its records is removed too, unless it is the last of its producer: it stays,
        empty, so that the sequence is not forgotten.
Rule 5: a new segment replaces as many neighbours as it has room for: the rest of small segments, or
        of ones that lost nearly everything, makes one. It may have no batch at all: a segment ends
        where the next one begins.

Two rules are our own. Control batches and those of transactions (a mirror may bring some) stay as
they are and supersede nothing: whether they count is recorded elsewhere. So do batches that cannot
be read, or would take too much memory: they must not be lost because their sender broke them. A
tombstone may be all that covers a record in one of those, so no tombstone is removed after the
first of them.

All of this runs off the event loop, in a thread or better a process: plain values in, plain values
out. It reads sealed segments by their paths, and writes files named `.cleaned`, which recovery
deletes. If a segment is deleted meanwhile, the cleaning fails without effect.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import Final

import msgspec

from broker.storage import layout
from broker.storage.errors import CorruptLog, InvalidBatch, StorageError
from broker.storage.segments.batches import read_bytes, verify, walk
from broker.storage.segments.files import OpenFile
from broker.storage.segments.segment import MAX_POSITION, Segment
from ground.files.durable_files import sync_file
from wire.errors import BatchError
from wire.record_batches.batch import BatchHeader, read_header
from wire.record_batches.records import DELETE_HORIZON, Codec, Record, build_batch, records

MAP_BYTES: Final = 32 << 20
UNPACKED_LIMIT: Final = 64 << 20
RECORDS_LIMIT: Final = 1 << 18

_CODEC_MASK: Final = 0x07
_MAX_RELATIVE_OFFSET: Final = 2**31 - 1
_DIGEST: Final = 16
_OFFSET: Final = Struct("<q")
_START: Final = Struct("<Q")  # the half of the digest that determines where the search begins
SLOT: Final = _DIGEST + _OFFSET.size
_LOAD: Final = 0.75  # beyond this, searches become long
_MOST_REPLACED: Final = 64  # segments by one: they are renamed on the event loop


class SealedSegment(msgspec.Struct, frozen=True):
    """A sealed segment; its offsets lie in `base_offset` to `next_offset` − 1."""

    base_offset: int
    next_offset: int
    size: int
    last_append_ms: int


class CleaningJob(msgspec.Struct, frozen=True, kw_only=True):
    """The segments to clean, and the other inputs of the cleaner."""

    directory: Path
    segments: tuple[SealedSegment, ...]
    """Consecutive segments, from the log's first to the last that may be cleaned."""
    first_dirty: int
    """Records from this offset on have never been cleaned."""
    last_offsets: Mapping[int, int]
    """The last offset of each producer."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_interval_bytes: int
    map_bytes: int = MAP_BYTES


class CleanedSegment(msgspec.Struct, frozen=True):
    """A cleaned segment: complete and synced files that may replace neighbouring segments."""

    replaces: tuple[SealedSegment, ...]
    size: int

    @property
    def base_offset(self) -> int:
        return self.replaces[0].base_offset

    @property
    def next_offset(self) -> int:
        return self.replaces[-1].next_offset

    @property
    def last_append_ms(self) -> int:
        return self.replaces[-1].last_append_ms


class CleaningCounts(msgspec.Struct):
    bytes_before: int = 0
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0
    keyless: int = 0
    batches_left_alone: int = 0


class Cleaning(msgspec.Struct, frozen=True):
    """The output of the cleaner: the new segments, in order, and the offset up to which the log is
    clean with them."""

    segments: tuple[CleanedSegment, ...]
    cleaned_to: int
    counts: CleaningCounts


class CleanedFiles(Segment):
    """A segment under construction: the names of its files end in `.cleaned`."""

    __slots__ = ()

    def path(self, suffix: str) -> Path:
        return super().path(suffix + layout.CLEANED)


def clean(job: CleaningJob) -> Cleaning:
    """Cleans the segments of the job; blocks for a long time. Raises `CorruptLog`, and `OSError` if
    files fail."""
    offset_map, end_offset = map_keys(job)
    cleaned_segments = []
    cleaner = _BatchCleaner(job, offset_map, end_offset)
    segments = [segment for segment in job.segments if segment.base_offset < end_offset]
    try:
        while segments:
            group, size = _clean_group(job, segments, cleaner)
            del segments[: len(group)]
            if size is not None:
                cleaned_segments.append(CleanedSegment(group, size))
    except BaseException:
        for segment in job.segments:
            discard(job.directory, segment.base_offset)
        raise
    return Cleaning(tuple(cleaned_segments), end_offset, cleaner.counts)


class OffsetMap:
    """The last offset of each key, for at most `capacity` keys.

    A key is its 16-byte BLAKE2b digest, with a new salt for each pass, so that no client can
    prepare colliding keys. A slot is the digest and the offset plus one, where zero means that it
    is free. With 24 bytes a slot and open addressing a million keys take 32 MB; a dict of them
    takes 116.
    """

    __slots__ = ("_salt", "_slots", "_table", "capacity", "size")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.size = 0
        self._slots = int(capacity / _LOAD) + 1
        self._table = bytearray(self._slots * SLOT)
        self._salt = os.urandom(blake2b.SALT_SIZE)

    def put(self, key: bytes, offset: int) -> None:
        """Sets the key's offset. The caller keeps `size` within `capacity`."""
        digest = blake2b(key, digest_size=_DIGEST, salt=self._salt).digest()
        position = self._slot(digest)
        if not _OFFSET.unpack_from(self._table, position + _DIGEST)[0]:
            self._table[position : position + _DIGEST] = digest
            self.size += 1
        _OFFSET.pack_into(self._table, position + _DIGEST, offset + 1)

    def get(self, key: bytes) -> int:
        """Returns the key's last offset; −1 if the key has none."""
        digest = blake2b(key, digest_size=_DIGEST, salt=self._salt).digest()
        (offset,) = _OFFSET.unpack_from(self._table, self._slot(digest) + _DIGEST)
        return int(offset) - 1

    def _slot(self, digest: bytes) -> int:
        table, slots = self._table, self._slots
        slot: int = _START.unpack_from(digest)[0] % slots
        while True:
            position = slot * SLOT
            stored_digest = table[position : position + _DIGEST]
            if stored_digest == digest or not _OFFSET.unpack_from(table, position + _DIGEST)[0]:
                return position
            slot = slot + 1 if slot + 1 < slots else 0


def capacity_of(table_bytes: int) -> int:
    """Returns the number of keys for which a table of this size has room."""
    return int(table_bytes / SLOT * _LOAD)


def map_keys(job: CleaningJob) -> tuple[OffsetMap, int]:
    """Returns the last offset of each key in the dirty segments, and the offset up to which the
    keys fit the map."""
    dirty_segments = [segment for segment in job.segments if segment.next_offset > job.first_dirty]
    counts = [count for count in _record_counts(job, dirty_segments) if count <= RECORDS_LIMIT]
    offset_map = OffsetMap(max(min(sum(counts), capacity_of(job.map_bytes)), *counts, 1))
    end_offset = job.first_dirty
    for segment in dirty_segments:
        for header, batch in _batches(job, segment):
            if header.next_offset <= job.first_dirty:
                continue
            records = _compactable(header, batch) or ()
            if offset_map.size + len(records) > offset_map.capacity:
                return offset_map, end_offset  # any batch fits an empty map, so there is progress
            for record in records:
                if record.key is not None and record.offset >= job.first_dirty:
                    offset_map.put(record.key, record.offset)
            end_offset = header.next_offset
        end_offset = segment.next_offset
    return offset_map, end_offset


def _record_counts(job: CleaningJob, segments: Sequence[SealedSegment]) -> Iterator[int]:
    for segment in segments:
        for located_batch in walk(_open(job, segment), 0, segment.size):
            yield located_batch.header.record_count


def _clean_group(
    job: CleaningJob, segments: Sequence[SealedSegment], cleaner: "_BatchCleaner"
) -> tuple[tuple[SealedSegment, ...], int | None]:
    """Write the rest of the first of these segments, and of those after it that fit in. Returns
    these segments, and the new one's size; None if the result would equal the original."""
    first_segment = segments[0]
    discard(job.directory, first_segment.base_offset)  # left by a pass that failed
    files = CleanedFiles.create(job.directory, first_segment.base_offset, job.index_interval_bytes)
    group: list[SealedSegment] = []
    is_changed = False
    for segment in segments:
        if group and not _has_room(job, group, files.size, segment):
            break
        group.append(segment)
        for header, batch in _batches(job, segment):
            cleaned_batch = cleaner.clean(header, batch)
            is_changed = is_changed or cleaned_batch is not batch
            if cleaned_batch:
                _append(files, cleaned_batch, job.index_interval_bytes)
        cleaner.counts.bytes_before += segment.size
    cleaner.counts.bytes_after += files.size
    if not is_changed and len(group) == 1:
        discard(job.directory, first_segment.base_offset)
        return tuple(group), None
    files.finish()
    os.utime(files.file.fd, ns=(group[-1].last_append_ms * 10**6,) * 2)
    os.fsync(files.file.fd)
    for path in files.unsynced_indexes():
        sync_file(path)
    return tuple(group), files.size


def _has_room(
    job: CleaningJob, group: Sequence[SealedSegment], size: int, segment: SealedSegment
) -> bool:
    """Whether the segment fits in with the rest of the group, even if all of it stays."""
    return (
        (not size or size + segment.size <= job.segment_bytes)
        and segment.next_offset - group[0].base_offset <= _MAX_RELATIVE_OFFSET
        and len(group) < _MOST_REPLACED
    )


def discard(directory: Path, base_offset: int) -> None:
    for suffix in layout.SEGMENT_SUFFIXES:
        layout.numbered(directory, base_offset, suffix + layout.CLEANED).unlink(missing_ok=True)


class _BatchCleaner:
    __slots__ = ("_cleaned_to", "_job", "_keys", "_tombstones_go", "counts")

    def __init__(self, job: CleaningJob, keys: OffsetMap, cleaned_to: int) -> None:
        self._job = job
        self._keys = keys
        self._cleaned_to = cleaned_to
        self.counts = CleaningCounts()
        self._tombstones_go = True

    def clean(self, header: BatchHeader, batch: bytes) -> bytes | None:
        """Returns the cleaned batch: the same if nothing changes, None if nothing is kept."""
        counts = self.counts
        counts.records_before += header.record_count
        records = _compactable(header, batch)
        if records is None:
            counts.records_after += header.record_count
            counts.batches_left_alone += 1
            self._tombstones_go = False
            return batch
        horizon = header.base_timestamp if header.attributes & DELETE_HORIZON else None
        is_expired = self._tombstones_go and horizon is not None and horizon <= self._job.now_ms
        kept_records = [record for record in records if self._stays(record, expired=is_expired)]
        counts.records_after += len(kept_records)
        if not kept_records:
            if self._job.last_offsets.get(header.producer_id) != header.last_offset:
                return None
            return _emptied(header) if records else batch
        if horizon is None and any(record.value is None for record in kept_records):
            return _rebuilt(header, kept_records, self._job.now_ms + self._job.delete_retention_ms)
        return (
            batch if len(kept_records) == len(records) else _rebuilt(header, kept_records, horizon)
        )

    def _stays(self, record: Record, *, expired: bool) -> bool:
        if record.offset >= self._cleaned_to:
            return True
        if record.key is None:
            self.counts.keyless += 1
            return False
        if self._keys.get(record.key) > record.offset:
            return False
        return record.value is not None or not expired


def _compactable(header: BatchHeader, batch: bytes) -> list[Record] | None:
    """The records of a batch; None if it must be left alone."""
    if header.is_control or header.is_transactional or header.record_count > RECORDS_LIMIT:
        return None
    try:
        return list(records(batch, UNPACKED_LIMIT))
    except BatchError:
        return None


def _rebuilt(header: BatchHeader, kept: Sequence[Record], horizon: int | None) -> bytes:
    attributes = header.attributes & ~_CODEC_MASK
    return build_batch(
        kept,
        codec=Codec(header.codec),
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=header.leader_epoch,
        attributes=attributes if horizon is None else attributes | DELETE_HORIZON,
        base_timestamp=header.base_timestamp if horizon is None else horizon,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def _emptied(header: BatchHeader) -> bytes:
    return build_batch(
        (),
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=header.leader_epoch,
        attributes=header.attributes & ~_CODEC_MASK & ~DELETE_HORIZON,
        base_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def _append(files: CleanedFiles, batch: bytes, interval: int) -> None:
    position = files.size
    if position + len(batch) > MAX_POSITION:
        raise StorageError(f"{files.path(layout.LOG)} would grow beyond {MAX_POSITION} bytes")
    unwritten_bytes = memoryview(batch)
    while unwritten_bytes:
        unwritten_bytes = unwritten_bytes[os.write(files.file.fd, unwritten_bytes) :]
    files.take(read_header(batch), position, interval)


def _open(job: CleaningJob, segment: SealedSegment) -> OpenFile:
    return OpenFile(layout.numbered(job.directory, segment.base_offset, layout.LOG))


def _batches(job: CleaningJob, segment: SealedSegment) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch of a segment with its header; damage is an error, and never copied."""
    file = _open(job, segment)
    try:
        for located_batch in verify(file, 0, segment.size, segment.base_offset, gaps=True):
            header = located_batch.header
            if header.next_offset > segment.next_offset:  # no CRC covers the base offset
                reason = f"unexpected base offset {header.base_offset}"
                raise InvalidBatch(located_batch.position, segment.next_offset, reason)
            yield header, read_bytes(file, located_batch.position, header.size)
    except InvalidBatch as error:
        raise CorruptLog(f"{file.path} at byte {error.position}: {error}") from error

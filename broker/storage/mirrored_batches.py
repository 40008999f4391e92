"""Compares batches of another cluster's log with their copy: finds known, new and contradictory
batches.

Rule 1: a batch keeps its offsets and its bytes; only its leader epoch is this cluster's own.
Rule 2: if the copy has offsets of a batch, it must have that batch: the same first offset, length
        and CRC. Then nothing is written. So a copier need not remember its position, and two
        copiers of the same log do no harm.
Rule 3: a compacted log may have been compacted further on either side. Then equal offsets mean the
        same batch, and missing offsets a batch that was compacted away.
Rule 4: what was deleted from the beginning of the copy is not requested again.
Rule 5: a batch after the end leaves a gap, which is an error unless an operator has allowed it. In
        a log that has never had a record, the first batch determines the start.

The source may be Apache Kafka, so a batch need only satisfy what a leader's followers check, and
its header must be possible for its bytes.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from broker.storage.errors import Differs, OffsetOutOfRange
from broker.storage.log import Log
from broker.storage.segments.batches import Appended, walk
from broker.storage.segments.files import OpenFile
from wire.errors import BatchError, ErrorCode
from wire.framing.slices import FileSlice
from wire.record_batches.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_PREFIX,
    MAGIC,
    BatchHeader,
    read_header,
)

Read = Callable[[int, int], FileSlice | None]
"""Reads whole batches of the copy from an offset on, up to a size that only a single batch may
exceed."""

_RUN_BYTES: Final = 512 * 1024
_RUN_BATCHES: Final = 128
_READ_BYTES: Final = 1024 * 1024
_HIGHEST_CODEC: Final = 4
_LEAST: Final = HEADER_SIZE - LENGTH_PREFIX
_EPOCH: Final = struct.Struct(">i")  # beside the length
_SMALLEST_RECORD: Final = 7  # bytes
_HIGHEST_OFFSET: Final = 2**63 - 1


class SourceRun(NamedTuple):
    """Consecutive batches: about a millisecond's work."""

    data: memoryview
    headers: list[BatchHeader]


def source_runs(records: memoryview) -> Iterator[SourceRun]:
    """Yields complete batches with ascending offsets, checked. Raises `BatchError` at the first
    invalid batch; the batches before it are good."""
    size, position, run_start, next_offset = len(records), 0, 0, 0
    run: list[BatchHeader] = []
    unpack, make_header = HEADER.unpack_from, BatchHeader._make
    problem: BatchError | None = None
    while position < size:
        if position + HEADER_SIZE > size:
            problem = _fault(records[position:], next_offset)
            break
        header = make_header(unpack(records, position))
        base, length, _, magic, crc, attributes, delta, _, _, _, _, _, count = header
        batch_end = position + LENGTH_PREFIX + length
        if (
            magic != MAGIC
            or not _LEAST <= length <= size - position - LENGTH_PREFIX
            or crc32c(records[position + CRC_START : batch_end]) != crc
            or not 0 <= count <= delta + 1
            or not next_offset <= base <= _HIGHEST_OFFSET - 1 - delta
            or attributes & CODEC_MASK > _HIGHEST_CODEC
            or count * _SMALLEST_RECORD > length - _LEAST
        ):
            # Whether there is an error, and which, is determined by the slow path.
            problem = _fault(records[position:], next_offset)
            if problem is not None:
                break
        run.append(header)
        position, next_offset = batch_end, base + delta + 1
        if position - run_start >= _RUN_BYTES or len(run) >= _RUN_BATCHES:
            yield SourceRun(records[run_start:position], run)
            run_start, run = position, []
    if run:
        yield SourceRun(records[run_start:position], run)
    if problem is not None:
        raise problem


def first_offset(records: memoryview | None) -> int:
    return read_header(records).base_offset if records and len(records) >= HEADER_SIZE else 0


def _fault(rest: memoryview, next_offset: int) -> BatchError | None:
    """The error in the first batch of these bytes, which must not begin before `next_offset`."""
    try:
        _check(rest, next_offset)
    except BatchError as error:
        return error
    return None


def _check(rest: memoryview, next_offset: int) -> None:
    if len(rest) < HEADER_SIZE:
        raise BatchError(
            ErrorCode.corrupt_message, f"{len(rest)} bytes are too short for a record batch"
        )
    header = read_header(rest)
    base, size = header.base_offset, header.size
    if header.magic != MAGIC:
        raise BatchError(
            ErrorCode.unsupported_for_message_format,
            f"record format {header.magic}: only batches of format {MAGIC} can be copied",
        )
    if not HEADER_SIZE <= size <= len(rest):
        raise BatchError(
            ErrorCode.corrupt_message,
            f"the batch at offset {base} should have {size} bytes, {len(rest)} were sent",
        )
    if crc32c(rest[CRC_START:size]) != header.crc:
        raise BatchError(
            ErrorCode.corrupt_message,
            f"the CRC of the batch at offset {base} does not match its bytes",
        )
    if problem := _header_fault(header, next_offset):
        raise BatchError(ErrorCode.invalid_record, f"the batch at offset {base} has {problem}")


def _header_fault(header: BatchHeader, next_offset: int) -> str:
    base, delta, count = header.base_offset, header.last_offset_delta, header.record_count
    if not 0 <= base <= _HIGHEST_OFFSET - 1 - max(delta, 0):
        return "an impossible offset"
    if not 0 <= count <= delta + 1:
        return f"{count} records, last offset delta {delta}"
    if base < next_offset:
        return f"an offset below {next_offset}, the end of the batch before it"
    if header.codec > _HIGHEST_CODEC:
        return f"unknown compression codec {header.codec}"
    if not header.codec and count * _SMALLEST_RECORD > header.size - HEADER_SIZE:
        return f"{count} records in {header.size - HEADER_SIZE} bytes"
    return ""


def count_known(log: Log, read: Read, headers: Sequence[BatchHeader], *, compacts: bool) -> int:
    """Returns the number of leading batches that the copy contains. Raises `Differs` if the copy
    has others in their place, and the errors of `read`."""
    copied_batches = _CopiedBatches(log, read)
    for count, header in enumerate(headers):
        if header.base_offset >= log.end_offset:
            return count
        if header.next_offset > log.start_offset:
            stored_batch = copied_batches.at(max(header.base_offset, log.start_offset))
            if not _is_same(header, stored_batch, compacts=compacts):
                raise Differs(_difference(header, stored_batch))
    return len(headers)


def append_kept(
    log: Log, batch: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int
) -> Appended:
    """Writes one checked batch at its own offset, at the end of the log or after it."""
    _EPOCH.pack_into(batch, LENGTH_PREFIX, leader_epoch)
    return log.append_copy(batch, header, now_ms, leader_epoch)


class _CopiedBatches:
    def __init__(self, log: Log, read: Read) -> None:
        self._log = log
        self._read = read
        self._found: BatchHeader | None = None
        self._following: Iterator[BatchHeader] = iter(())

    def at(self, offset: int) -> BatchHeader | None:
        """Returns the batch with this offset, or the next one; None at the end."""
        header = self._found
        while header is None or header.next_offset <= offset:
            header = next(self._following, None)
            if header is None:
                self._following = self._read_from(offset)
                header = next(self._following, None)
                if header is None:
                    return None
        self._found = header
        return header

    def _read_from(self, offset: int) -> Iterator[BatchHeader]:
        try:
            piece = self._read(offset, _READ_BYTES)
        except OffsetOutOfRange:  # deleted just now
            return
        if piece is None:
            return
        assert isinstance(piece.file, OpenFile), "the log's own"
        for located_batch in walk(piece.file, piece.position, piece.position + piece.length):
            yield located_batch.header


def _is_same(header: BatchHeader, stored: BatchHeader | None, *, compacts: bool) -> bool:
    if compacts:
        if stored is None or stored.base_offset > header.last_offset:
            return True
        stored_range = stored.base_offset, stored.last_offset_delta
        return stored_range == (header.base_offset, header.last_offset_delta)
    return stored is not None and (
        (stored.base_offset, stored.length, stored.crc)
        == (header.base_offset, header.length, header.crc)
    )


def _difference(header: BatchHeader, stored: BatchHeader | None) -> str:
    description = f"differs: at offset {header.base_offset} the source has {_described(header)}"
    if stored is None or stored.base_offset > header.last_offset:
        return f"{description}, and the copy has nothing up to {header.last_offset}"
    return f"{description}, and the copy has at {stored.base_offset} {_described(stored)}"


def _described(header: BatchHeader) -> str:
    return (
        f"a batch up to {header.last_offset} of {header.length + LENGTH_PREFIX} bytes with CRC "
        f"{header.crc:08x}"
    )

"""Checks the batches of a leader's answer, and splits them into runs.

A batch is copied unchanged, so it must only be complete, with a correct CRC, and allowed at its
position: offsets ascend, and so do epochs, up to the leader's own. Its records are not inspected:
the leader has done that. Compaction leaves gaps between batches, and within them. Pure.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from wire.record_batches.batch import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_PREFIX,
    MAGIC,
    BatchHeader,
    headers,
)

_RUN_BYTES: Final = 512 * 1024
_RUN_BATCHES: Final = 128
_LEAST: Final = HEADER_SIZE - LENGTH_PREFIX


class BadCopy(Exception):
    """Raised when the leader sends a batch that cannot be copied; the batches before it are
    valid."""


class Overlaps(Exception):
    """Raised when the first batch spans the log's end: it begins at `base`, before the end. The
    leader has compacted, or its log starts within a batch."""

    def __init__(self, base: int) -> None:
        super().__init__(f"the leader has one batch from offset {base} on")
        self.base = base


class Run(NamedTuple):
    """Consecutive batches: about a millisecond's work."""

    data: memoryview
    headers: list[BatchHeader]


def checked_runs(
    records: memoryview, end: int, last_epoch: int, leader_epoch: int
) -> Iterator[Run]:
    """Yields the runs to append to a log that ends at `end`, with a batch of `last_epoch`. Omits a
    truncated batch at the end if a complete one precedes it."""
    _check_overlap(records, end)
    size, position, run_start = len(records), 0, 0
    run: list[BatchHeader] = []
    problem = f"{size} bytes are too short for a batch" if size else ""
    unpack, make_header = HEADER.unpack_from, BatchHeader._make
    while position + HEADER_SIZE <= size:
        header = make_header(unpack(records, position))
        base, length, epoch, magic, crc, _, delta, _, _, _, _, _, count = header
        batch_end = position + LENGTH_PREFIX + length
        if batch_end > size and position:
            break
        problem = ""
        if (
            magic != MAGIC
            or not _LEAST <= length <= size - position - LENGTH_PREFIX
            or crc32c(records[position + CRC_START : batch_end]) != crc
            or not 0 <= count <= delta + 1
            or base < end
            or not last_epoch <= epoch <= leader_epoch
        ):
            problem = _damage(header, records[position:batch_end]) or (
                f"a batch of epoch {epoch}, not at offset {end} or later with an epoch from "
                f"{last_epoch} to {leader_epoch}"
            )
            problem = f"at offset {base}: {problem}"
            break
        run.append(header)
        position, end, last_epoch = batch_end, base + delta + 1, epoch
        if position - run_start >= _RUN_BYTES or len(run) >= _RUN_BATCHES:
            yield Run(records[run_start:position], run)
            run_start, run = position, []
    if run:
        yield Run(records[run_start:position], run)
    if problem:
        raise BadCopy(problem)


def _check_overlap(records: memoryview, end: int) -> None:
    """Raises `Overlaps`."""
    for _, header in headers(records):
        overlaps = header.base_offset < end < header.next_offset
        if overlaps and not _damage(header, records[: header.size]):
            raise Overlaps(header.base_offset)
        return


def _damage(header: BatchHeader, batch: memoryview) -> str:
    """The error in a batch, regardless of its position."""
    if header.magic != MAGIC:
        return f"record format {header.magic}, not {MAGIC}"
    if header.size < HEADER_SIZE or header.size != len(batch):
        return f"a batch of {header.size} bytes, but only {len(batch)} arrived"
    if crc32c(batch[CRC_START:]) != header.crc:
        return "the CRC of the batch does not match its bytes"
    if header.base_offset < 0 or not 0 <= header.record_count <= header.last_offset_delta + 1:
        return f"{header.record_count} records, last offset delta {header.last_offset_delta}"
    return ""

"""Reads the batches of a log from its files, outside the broker's process. Never writes.

Batches are returned by their headers, many at once: the work for each batch is most of what the
ledger costs. While the segment that was read last continues, the directory is not even listed.

Files may be replaced by compaction and removed by retention at any time. An open file stays
readable as it was; a missing one ends the reading, which continues after the broker's next report.
Batches keep their offsets whatever happens, so the next offset is always enough to continue. Its
byte position is a hint that saves reading the segment from its beginning, and is used only if that
very batch begins there.
"""

import os
from bisect import bisect_right
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from broker.storage import layout
from broker.storage.segments.batches import find_valid, header_at, read_bytes
from broker.storage.segments.files import OpenFile
from ledger.counting.batches import RawHeader
from ledger.counting.journal import CountPosition
from wire.record_batches.batch import CRC_START, HEADER, HEADER_SIZE, LENGTH_PREFIX, MAGIC

_DIGITS: Final = 20
_MOST: Final = 256  # headers in a run
_AHEAD: Final = 1 << 16  # bytes read at once where batches are small
_PIECE: Final = 1 << 20  # read at once where all of it is read
_SMALL: Final = 6_000  # where another read for the next header costs more than a whole batch


class NoBatch(Exception):
    """Raised when a segment has no batch at this byte, where one is expected."""

    def __init__(self, message: str, segment: int, byte: int) -> None:
        super().__init__(message)
        self.segment = segment
        self.byte = byte


class BatchRun(NamedTuple):
    """Consecutive batches of a segment, from this byte on."""

    headers: list[RawHeader]
    file: OpenFile
    segment: int
    byte: int

    def read(self, position: int, length: int) -> bytes:
        return read_bytes(self.file, position, length)

    def part(self, first: int, end: int) -> "BatchRun":
        """Returns the batches from index `first` up to `end`."""
        byte = self.byte + sum(header[1] + LENGTH_PREFIX for header in self.headers[:first])
        return self._replace(headers=self.headers[first:end], byte=byte)

    @property
    def next_offset(self) -> int:
        return _next_offset(self.headers[-1])


def runs(directory: Path, place: CountPosition, exposed: int) -> Iterator[BatchRun]:
    """Yields the batches from the one that holds `place.next_offset`, or the next one, up to the
    exposed end.

    Raises OSError, and NoBatch if a segment ends in the middle of a batch.
    """
    hinted_file = _hinted_segment(directory, place)
    if hinted_file is not None:
        next_place = yield from _segment(hinted_file, place, place.byte, exposed)
        if next_place is None:
            return
        place = next_place
    bases = _bases(directory)
    base_index = max(bisect_right(bases, place.next_offset) - 1, 0)
    for index, base in enumerate(bases[base_index:], base_index):
        file = OpenFile(layout.numbered(directory, base, layout.LOG))
        next_base = bases[index + 1] if index + 1 < len(bases) else None
        position = _start_position(file, place, base, next_base)
        next_place = yield from _segment(file, place._replace(segment=base), position, exposed)
        if next_place is None:
            return
        place = next_place


def _segment(
    file: OpenFile, place: CountPosition, position: int, exposed: int
) -> Generator[BatchRun, None, CountPosition | None]:
    """The rest of the segment from this byte on; returns the place after it, or None at the end."""
    offset, segment = place.next_offset, place.segment
    size = os.fstat(file.fd).st_size
    while offset < exposed:
        headers, next_position, is_end = _headers(file.fd, position, size, exposed)
        is_damaged = not (headers or is_end)
        while headers and _next_offset(headers[0]) <= offset:
            position += headers.pop(0)[1] + LENGTH_PREFIX
        if headers:
            offset = _next_offset(headers[-1])
            yield BatchRun(headers, file, segment, position)
        position = next_position
        if is_end:
            return None
        if position >= size:
            return CountPosition(offset, segment, position)
        if is_damaged:
            raise NoBatch(
                f"{file.path}: no batch at byte {position}, where offset {offset} should be",
                segment,
                position,
            )
    return None


def wrong_crcs(run: BatchRun) -> list[int]:
    """Returns the indexes of the batches whose CRC does not match. Reads all of them."""
    wrong_indexes: list[int] = []
    headers, position, at = run.headers, run.byte, 0
    while at < len(headers):
        end, size = at, 0
        while end < len(headers) and (end == at or size < _PIECE):
            size += headers[end][1] + LENGTH_PREFIX
            end += 1
        piece = memoryview(run.read(position, size))
        if len(piece) < size:
            raise NoBatch(f"{run.file.path}: the file was truncated", run.segment, position)
        batch_start = 0
        for index in range(at, end):
            header = headers[index]
            batch_end = batch_start + header[1] + LENGTH_PREFIX
            if crc32c(piece[batch_start + CRC_START : batch_end]) != header[4]:
                wrong_indexes.append(index)
            batch_start = batch_end
        position, at = position + size, end
    return wrong_indexes


def behind_damage(directory: Path, broken: NoBatch, offset: int, exposed: int) -> CountPosition:
    """Returns the place at which reading can continue after damage at `offset`: a readable batch,
    the next segment, or the exposed end."""
    file = OpenFile(layout.numbered(directory, broken.segment, layout.LOG))
    size = os.fstat(file.fd).st_size
    located_batch = find_valid(file, broken.byte, size, offset - 1)
    if located_batch is not None and located_batch.header.base_offset < exposed:
        return CountPosition(
            located_batch.header.base_offset, broken.segment, located_batch.position
        )
    next_base = next((base for base in _bases(directory) if base > broken.segment), exposed)
    return CountPosition(min(max(next_base, offset), exposed))


def _next_offset(header: RawHeader) -> int:
    return header[0] + header[6] + 1


def _headers(fd: int, position: int, size: int, exposed: int) -> tuple[list[RawHeader], int, bool]:
    """Headers of consecutive batches, the position after them, and whether that is the
    exposed end."""
    headers: list[RawHeader] = []
    unpack, pread, append = HEADER.unpack_from, os.pread, headers.append
    last_position = (
        position - 1
    )  # the last byte at which a complete header can begin in what was read
    chunk, chunk_at, read_ahead = b"", position, HEADER_SIZE
    for _ in range(_MOST):
        if position > last_position:
            chunk, chunk_at = pread(fd, read_ahead, position), position
            last_position = position + len(chunk) - HEADER_SIZE
            if position > last_position:
                break
        header: RawHeader = unpack(chunk, position - chunk_at)
        base, length, _, magic, _, _, delta, _, _, _, _, _, _ = header
        next_position = position + length + LENGTH_PREFIX
        if magic != MAGIC or next_position > size or next_position < position + HEADER_SIZE:
            break
        if base < 0 or delta < 0:
            break
        if base >= exposed:
            return headers, position, True
        append(header)
        position = next_position
        read_ahead = _AHEAD if length < _SMALL else HEADER_SIZE
    return headers, position, False


def _hinted_segment(directory: Path, place: CountPosition) -> OpenFile | None:
    """The segment that holds the next batch, if the hint is right."""
    if place.segment < 0 or place.byte < 0:
        return None
    try:
        file = OpenFile(layout.numbered(directory, place.segment, layout.LOG))
    except FileNotFoundError:
        return None
    return file if _is_there(file, place, os.fstat(file.fd).st_size) else None


def _bases(directory: Path) -> list[int]:
    return sorted(
        int(path.stem)
        for path in directory.iterdir()
        if path.suffix == layout.LOG and len(path.stem) == _DIGITS and path.stem.isdecimal()
    )


def _start_position(file: OpenFile, place: CountPosition, base: int, following: int | None) -> int:
    """The byte of this segment at which to begin."""
    size = os.fstat(file.fd).st_size
    if place.segment != base or not 0 <= place.byte <= size:
        return 0
    if place.byte == size:
        return size if following in (None, place.next_offset) else 0
    return place.byte if _is_there(file, place, size) else 0


def _is_there(file: OpenFile, place: CountPosition, size: int) -> bool:
    header = header_at(file, place.byte, size)
    return header is not None and header.base_offset == place.next_offset

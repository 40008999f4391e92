"""The batches of a log, read from its files behind the broker's back. Nothing is ever written.

The files may be replaced by compaction, and removed by retention, at any time. What is open stays
readable as it was; a file that is not there any more ends the reading, which goes on after the
broker's next report. Batches keep their offsets whatever happens, so the next offset is always
enough to go on; the byte at which it was is a hint that saves reading the segment from its
beginning, and is believed only if that very batch begins there.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from broker.storage import layout
from broker.storage.batches import header_at, read_bytes, walk
from broker.storage.files import OpenFile
from ledger.counting.journal import Place
from wire.batch import BatchHeader

_DIGITS: Final = 20


class Unreadable(Exception):
    """Where a batch should be there is none."""


class Found(NamedTuple):
    """A batch, how to read all of it, and where the next one begins."""

    header: BatchHeader
    read: Callable[[], bytes]
    segment: int
    end: int


def batches(directory: Path, place: Place, exposed: int) -> Iterator[Found]:
    """From the batch that holds `place.next_offset`, or the next behind it, up to what is exposed.

    Raises OSError, and Unreadable if a segment ends in the middle.
    """
    bases = _bases(directory)
    offset = place.next_offset
    at = max(bisect_right(bases, offset) - 1, 0)
    for number, base in enumerate(bases[at:], at):
        file = OpenFile(layout.numbered(directory, base, layout.LOG))
        size = os.fstat(file.fd).st_size
        following = bases[number + 1] if number + 1 < len(bases) else None
        position = _begin(file, place, base, size, following)
        for located in walk(file, position, size):
            header = located.header
            if header.base_offset >= exposed:
                return
            position = located.end
            if header.next_offset <= offset:
                continue
            offset = header.next_offset
            yield Found(header, _reads(file, located.position, header), base, located.end)
        if offset >= exposed:
            return
        if position < size:
            raise Unreadable(
                f"{file.path}: no batch at byte {position}, where offset {offset} should be"
            )


def _bases(directory: Path) -> list[int]:
    return sorted(
        int(path.stem)
        for path in directory.iterdir()
        if path.suffix == layout.LOG and len(path.stem) == _DIGITS and path.stem.isdecimal()
    )


def _begin(file: OpenFile, place: Place, base: int, size: int, following: int | None) -> int:
    """Where in this segment to begin."""
    if place.segment != base or not 0 <= place.byte <= size:
        return 0
    if place.byte == size:
        return size if following in (None, place.next_offset) else 0
    header = header_at(file, place.byte, size)
    return place.byte if header is not None and header.base_offset == place.next_offset else 0


def _reads(file: OpenFile, position: int, header: BatchHeader) -> Callable[[], bytes]:
    return lambda: read_bytes(file, position, header.size)

"""The files in a partition's directory, under Kafka's names.

00000000000000000042.log         the batches from offset 42 on
00000000000000000042.index       where in it an offset is      (hint, see index.py)
00000000000000000042.timeindex   from which offset on a timestamp may be found (hint)
00000000000000000042.snapshot    producer states as of just before offset 42
00000000000000000042.start       records below offset 42 were deleted; empty
00000000000000000042.anew        to be emptied: the next record has offset 42; empty
….cleaned                        compaction's output, unfinished
….swap                           compaction's output, complete: takes its place after a crash too
0…042.0…099.swap                 that at 42 replaces the segments that begin before 99; empty
….deleted                        to be removed
leader-epoch-checkpoint, partition.metadata
compacted                        there were holes in the offsets once: a gap proves no loss
transactions                     transactional batches were copied into the log once
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from ground.files.durable_files import TEMPORARY_SUFFIX

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
SNAPSHOT: Final = ".snapshot"
START: Final = ".start"
ANEW: Final = ".anew"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"
SEGMENT_SUFFIXES: Final = (OFFSET_INDEX, TIME_INDEX, LOG)
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
COMPACTED: Final = "compacted"
TRANSACTIONS: Final = "transactions"
_DIGITS: Final = 20


def numbered(directory: Path, offset: int, suffix: str) -> Path:
    """Returns the path of the file of this kind for `offset`."""
    return directory / f"{offset:0{_DIGITS}d}{suffix}"


def swap_extent(directory: Path, base_offset: int, end_offset: int) -> Path:
    """Returns the path of the file that lists the segments that the new one replaces in a swap."""
    return numbered(directory, base_offset, f".{end_offset:0{_DIGITS}d}{SWAP}")


class PartitionFiles(msgspec.Struct):
    """The files in a partition's directory, by base offset, and leftovers."""

    logs: dict[int, os.stat_result] = {}
    offset_indexes: dict[int, int] = {}
    time_indexes: dict[int, int] = {}
    snapshots: list[int] = []
    starts: list[int] = []
    anew: list[int] = []
    swaps: set[int] = set()  # base offsets with a complete `.log.swap`
    swap_ends: dict[int, int] = {}  # and the offset up to which each replaces segments
    leftovers: list[Path] = []
    compacted: bool = False


def scan(directory: Path) -> PartitionFiles:
    """Returns the files of a directory. Ignores files with other names."""
    contents = PartitionFiles()
    with os.scandir(directory) as entries:
        for entry in entries:
            stem, suffix = os.path.splitext(entry.name)  # noqa: PTH122 — a thousand directories at start
            if suffix in (CLEANED, SWAP, DELETED, TEMPORARY_SUFFIX):
                _note_leftover(contents, directory, entry.name, stem, suffix)
            elif len(stem) == _DIGITS and stem.isdecimal():
                _note_numbered(contents, entry, int(stem), suffix)
            elif entry.name == COMPACTED:
                contents.compacted = True
    contents.snapshots.sort()
    return contents


def _note_numbered(
    contents: PartitionFiles, entry: os.DirEntry[str], offset: int, suffix: str
) -> None:
    if suffix == LOG:
        contents.logs[offset] = entry.stat()
    elif suffix == OFFSET_INDEX:
        contents.offset_indexes[offset] = entry.stat().st_size
    elif suffix == TIME_INDEX:
        contents.time_indexes[offset] = entry.stat().st_size
    elif suffix == SNAPSHOT:
        contents.snapshots.append(offset)
    elif suffix == START:
        contents.starts.append(offset)
    elif suffix == ANEW:
        contents.anew.append(offset)


def _note_leftover(
    contents: PartitionFiles, directory: Path, name: str, stem: str, suffix: str
) -> None:
    offset_text, kind = stem[:_DIGITS], stem[_DIGITS:]
    if suffix == SWAP and offset_text.isdecimal():
        if kind == LOG:
            contents.swaps.add(int(offset_text))
        elif kind[1:].isdecimal():
            contents.swap_ends[int(offset_text)] = int(kind[1:])
    contents.leftovers.append(directory / name)

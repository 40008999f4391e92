"""Replaces segments with the output of compaction, atomically and durably.

    1  X.log.cleaned, X.index.cleaned, X.timeindex.cleaned are written and synced
    2  X.Y.swap records that it replaces what begins before Y; indexes, then log, are renamed to
       .swap; the directory is synced: this commits the swap
    3  the old segments are renamed to .deleted
    4  indexes, then log, lose their .swap; X.Y.swap is removed

A crash before step 2 leaves `.cleaned` files, which are removed; one after it a `.log.swap`, from
which `finish` continues. That of a release without X.Y.swap ends with the last batch of the last
segment that it replaces.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from broker.storage import layout
from broker.storage.errors import NotNext, NotWritten
from broker.storage.segments.batches import walk
from broker.storage.segments.files import OpenFile
from ground.files.durable_files import sync_directory

_log = logging.getLogger(__name__)


def cleaned_files(directory: Path, base_offset: int) -> list[Path]:
    paths = (layout.numbered(directory, base_offset, suffix) for suffix in layout.SEGMENT_SUFFIXES)
    return [path.with_name(path.name + layout.CLEANED) for path in paths]


def note_gaps(directory: Path) -> None:
    """Records that gaps in the offsets are not losses from now on. Blocks the first time."""
    note_path = directory / layout.COMPACTED
    if not note_path.exists():
        note_path.touch()
        sync_directory(directory)


def expect_gap(directory: Path, end_offset: int, base_offset: int) -> None:
    """Accepts a gap from the log's end to a copied batch, as the leader has compacted the records
    between. Blocks the first time. Raises `NotNext`, `NotWritten`."""
    if base_offset < end_offset:
        raise NotNext(
            f"{directory} ends at {end_offset}, and the copied batch begins at {base_offset}"
        )
    try:
        note_gaps(directory)
    except OSError as error:
        raise NotWritten.because(
            error, f"cannot record that there are gaps in {directory}"
        ) from error


def note_transactions(directory: Path) -> bool:
    """Records on disk that the log may contain transactions from now on. Raises `NotWritten`."""
    note_path = directory / layout.TRANSACTIONS
    try:
        note_path.touch()
        sync_directory(directory)
    except OSError as error:
        raise NotWritten.because(
            error, f"cannot record that there are transactions in {directory}"
        ) from error
    _log.warning(
        "copying transactional batches: consumers with isolation.level=read_committed are "
        "rejected directory=%s", directory,
    )  # fmt: skip
    return True


def swap_in(directory: Path, bases: Sequence[int], end_offset: int) -> list[Path]:
    """Performs steps 2 to 4 of the swap for the segments at `bases`; the new segment has the first
    base offset, and ends at `end_offset`.

    Returns the files to be unlinked. That the log has gaps is recorded durably before anything
    else.
    """
    note_gaps(directory)
    extent = layout.swap_extent(directory, bases[0], end_offset)
    extent.touch()
    for path in cleaned_files(directory, bases[0]):
        path.replace(path.with_suffix(layout.SWAP))
    sync_directory(directory)
    doomed_paths = [path for base in bases for path in retire(directory, base)]
    _take_place(directory, bases[0])
    extent.unlink()
    return doomed_paths


def retire(directory: Path, base_offset: int) -> list[Path]:
    """Renames a segment's files to `.deleted`; returns the files to be unlinked."""
    doomed_paths = []
    for suffix in reversed(layout.SEGMENT_SUFFIXES):
        path = layout.numbered(directory, base_offset, suffix)
        deleted_path = path.with_name(path.name + layout.DELETED)
        try:
            path.replace(deleted_path)
        except FileNotFoundError:
            continue
        doomed_paths.append(deleted_path)
    return doomed_paths


def _take_place(directory: Path, base_offset: int) -> None:
    """Step 4. Replaces the files with these names."""
    for suffix in layout.SEGMENT_SUFFIXES:
        path = layout.numbered(directory, base_offset, suffix)
        swap_path = path.with_name(path.name + layout.SWAP)
        if suffix == layout.LOG or swap_path.exists():
            swap_path.replace(path)


def finish(directory: Path, files: layout.PartitionFiles) -> None:
    """Completes a committed swap after a crash, and removes the files of an uncommitted one."""
    # Indexes count too: when a segment was being retired, its log went first.
    bases = files.logs.keys() | files.offset_indexes.keys() | files.time_indexes.keys()
    for base_offset in sorted(files.swaps):
        path = layout.numbered(directory, base_offset, layout.LOG + layout.SWAP)
        _log.info("completing compaction path=%s", path)
        end_offset = files.swap_ends.get(base_offset)
        if end_offset is None:
            end_offset = _end_of(path, base_offset)
        for base in bases:
            if base_offset < base < end_offset:
                for doomed_path in retire(directory, base):
                    doomed_path.unlink()
        _take_place(directory, base_offset)
    for path in files.leftovers:
        path.unlink(missing_ok=True)
    sync_directory(directory)


def _end_of(path: Path, base_offset: int) -> int:
    file = OpenFile(path)
    end_offset = base_offset
    for located_batch in walk(file, 0, path.stat().st_size):
        end_offset = located_batch.header.next_offset
    return end_offset

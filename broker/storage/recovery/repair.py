"""Repairs a log that is damaged in the middle, by giving up everything after the damage.

Only on an operator's order, and only while no broker has the log open: the records had been
acknowledged, and may have been read. Everything is verified from the log's beginning, so damage
below the recovery point is found too. After a crash in the middle, less is left to be cut off, and
the repair can be run again.
"""

import logging
from pathlib import Path

import msgspec

from broker.storage import layout
from broker.storage.cleaning import swap
from broker.storage.config import LogConfig
from broker.storage.errors import EndMissing, InvalidBatch
from broker.storage.recovery import truncation
from broker.storage.segments.batches import verify
from broker.storage.segments.segment import Segment

_log = logging.getLogger(__name__)


class GivenUp(msgspec.Struct, frozen=True, kw_only=True):
    """The damage, and the lost offsets from `first_offset` on."""

    path: Path
    position: int
    reason: str
    first_offset: int
    lost_bytes: int
    lost_segments: int
    """Whole segments after the damaged one."""


def truncate_at_corruption(directory: Path, config: LogConfig) -> GivenUp | None:
    """Cuts a log off at its first damage. Returns the damage and the lost offsets, or None if there
    is no damage. Blocks.

    The next `Log.open` rebuilds the indexes and everything else that is derived from the batches.
    """
    files = layout.scan(directory)
    if files.leftovers or files.anew:
        swap.finish(directory, files)
        truncation.finish(directory, files, config.index_interval_bytes)
        files = layout.scan(directory)
    segments = [
        Segment(directory, base, stat.st_size, 0) for base, stat in sorted(files.logs.items())
    ]
    gaps = config.compact or files.compacted
    given_up = _first_damage(directory, segments, files, gaps=gaps)
    if given_up is not None:
        _log.warning("cutting off everything after the damage %s", given_up)
        truncation.cut_off(
            directory, files, given_up.first_offset, (given_up.path, given_up.position)
        )
    return given_up


def cut_off_end(directory: Path, missing: EndMissing) -> None:
    """Makes a log valid whose end is missing, by ending it where its data ends. Blocks. Removes the
    directory's records of the missing part, which must be recorded elsewhere by now."""
    assert missing.path is not None, "there is nothing to cut off"
    truncation.cut_off(
        directory, layout.scan(directory), missing.offset, (missing.path, missing.position)
    )


def _first_damage(
    directory: Path, segments: list[Segment], files: layout.PartitionFiles, *, gaps: bool
) -> GivenUp | None:
    offset = segments[0].base_offset if segments else 0
    for index, segment in enumerate(segments):
        later_segments = segments[index + 1 :]
        path, position, reason = segment.path(layout.LOG), 0, ""
        if segment.base_offset != offset and not (gaps and segment.base_offset > offset):
            reason = f"begins with offset {segment.base_offset}, not {offset}"
        else:
            offset = segment.base_offset
            try:
                for located_batch in verify(segment.file, 0, segment.size, offset, gaps=gaps):
                    offset = located_batch.header.next_offset
            except InvalidBatch as error:
                position, reason = error.position, error.reason
        if reason:
            return GivenUp(
                path=path,
                position=position,
                reason=reason,
                first_offset=offset,
                lost_bytes=segment.size
                - position
                + sum(segment.size for segment in later_segments),
                lost_segments=len(later_segments),
            )
        segment.cool()
    reached_offset = max((*files.snapshots, *files.starts), default=0)
    orphans = (files.offset_indexes.keys() | files.time_indexes.keys()) - files.logs.keys()
    if reached_offset > offset or any(base > offset for base in orphans):
        return GivenUp(
            path=directory,
            position=0,
            reason=f"the end is missing, up to offset {max(reached_offset, *orphans, 0)}",
            first_offset=offset,
            lost_bytes=0,
            lost_segments=0,
        )
    return None

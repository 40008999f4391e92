"""Decides when a compacted log is cleaned, and runs a cleaning from beginning to end.

A log is cleaned from its first segment up to the first that may not be: one that is not yet on
disk, that is appended to, or that is younger than `min.compaction.lag.ms`. Cleaning is due when the
part never cleaned is more than `min.cleanable.dirty.ratio` of the total, or has waited longer than
`max.compaction.lag.ms`. Ages are those of retention: the time since append, by the broker's clock.
While that clock is not trusted (retention.py), logs are not compacted either, not least because
tombstones are removed by it.

The caller keeps the offset up to which a log was cleaned (`cleaner-offset-checkpoint`). It only
saves work: without it, or with an old one, more is cleaned than necessary. But it must never be too
high, as from an earlier log of the same name: keys below it would not be considered again, and a
tombstone could be removed before the records that it covers.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

from broker.storage.cleaning.cleaner import Cleaning, CleaningJob, SealedSegment, discard
from broker.storage.config import LogConfig
from broker.storage.log import Log

_log = logging.getLogger(__name__)


def due_segments(
    sealed: Sequence[SealedSegment], config: LogConfig, first_dirty: int, now_ms: int
) -> tuple[SealedSegment, ...]:
    """Returns the segments to clean; none if cleaning is not due."""
    cleanable_segments: list[SealedSegment] = []
    dirty_bytes = 0
    dirty_since = None
    for segment in sealed:
        if segment.next_offset > first_dirty:
            age = now_ms - segment.last_append_ms  # negative if the clock has gone back
            if max(age, 0) < config.min_compaction_lag_ms:
                break
            dirty_bytes += segment.size
            if dirty_since is None:
                # When it was begun, or slightly earlier: the last append to the one before.
                dirty_since = (cleanable_segments or [segment])[-1].last_append_ms
        cleanable_segments.append(segment)
    if dirty_since is None or not dirty_bytes:
        return ()
    ratio = dirty_bytes / sum(segment.size for segment in cleanable_segments)
    waited_ms = now_ms - dirty_since
    if ratio > config.min_cleanable_dirty_ratio or waited_ms > config.max_compaction_lag_ms:
        return tuple(cleanable_segments)
    return ()


async def compact(
    log: Log,
    first_dirty: int,
    now_ms: int,
    clean: Callable[[CleaningJob], Awaitable[Cleaning]],
) -> Cleaning | None:
    """Cleans the log if cleaning is due; returns the result, or None.

    `first_dirty` is the last `cleaned_to` of this log, 0 if there is none; `clean` runs the cleaner
    off the event loop. Belongs to the event loop's thread, one at a time for each log. Raises
    `CorruptLog` if stored bytes are damaged, `OSError` if there is no room: the log is then
    unchanged. The log may be appended to and read meanwhile.
    """
    config = log.config
    if first_dirty > log.end_offset:
        first_dirty = 0  # of an earlier log of that name
    segments = due_segments(log.sealed_segments(), config, first_dirty, now_ms)
    if not segments or log.offline:
        return None
    job = CleaningJob(
        directory=log.directory,
        segments=segments,
        first_dirty=first_dirty,
        last_offsets=log.producers.last_offsets(),
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        index_interval_bytes=config.index_interval_bytes,
    )
    try:
        cleaning = await clean(job)
    except FileNotFoundError as error:
        _log.info("compaction abandoned, a segment was removed path=%s", error.filename)
        return None
    return cleaning if _swap_in(log, cleaning) else None


def _swap_in(log: Log, cleaning: Cleaning) -> bool:
    """Swaps the cleaned segments in, in order, since a tombstone may be removed only after the
    records that it covers. Returns False if segments were removed meanwhile."""
    for index, segment in enumerate(cleaning.segments):
        if log.offline or not log.replace_segments(segment):
            _log.info("compaction abandoned, segments were removed directory=%s", log.directory)
            for unused_segment in cleaning.segments[index:]:
                discard(log.directory, unused_segment.base_offset)
            return False
    return True

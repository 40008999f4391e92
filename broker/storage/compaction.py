"""When a compacted log is cleaned, and one cleaning from beginning to end.

A log is cleaned from its first segment up to the first that may not be: one that is not yet on
disk, that is appended to, or that is younger than `min.compaction.lag.ms`. It is due when what was
never cleaned is more than `min.cleanable.dirty.ratio` of that, or has waited longer than
`max.compaction.lag.ms`. Ages are those of retention: the time since append, by the broker's clock.
So whoever does not trust that clock just now (retention.py) does not compact either, the less
as tombstones go by it.

Up to where a log was cleaned is for the caller to keep (`cleaner-offset-checkpoint`). It is only a
saving: without it, or with an old one, more is cleaned than need be. But never one that is too
high, of an earlier log of that name: keys below it would not be looked at again, and a tombstone
could go before what it covers.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

from broker.storage.cleaner import Cleaning, CleaningJob, SealedSegment, discard
from broker.storage.config import LogConfig
from broker.storage.log import Log

_log = logging.getLogger(__name__)


def due_segments(
    sealed: Sequence[SealedSegment], config: LogConfig, first_dirty: int, now_ms: int
) -> tuple[SealedSegment, ...]:
    """The segments to clean; none if that is not due."""
    cleanable: list[SealedSegment] = []
    dirty_bytes = 0
    dirty_since = None
    for segment in sealed:
        if segment.next_offset > first_dirty:
            age = now_ms - segment.last_append_ms  # negative where the clock has gone back
            if max(age, 0) < config.min_compaction_lag_ms:
                break
            dirty_bytes += segment.size
            if dirty_since is None:
                # When it was begun, or a little earlier: when the one before was last appended to.
                dirty_since = (cleanable or [segment])[-1].last_append_ms
        cleanable.append(segment)
    if dirty_since is None or not dirty_bytes:
        return ()
    ratio = dirty_bytes / sum(segment.size for segment in cleanable)
    waited = now_ms - dirty_since
    if ratio > config.min_cleanable_dirty_ratio or waited > config.max_compaction_lag_ms:
        return tuple(cleanable)
    return ()


async def compact(
    log: Log,
    first_dirty: int,
    now_ms: int,
    clean: Callable[[CleaningJob], Awaitable[Cleaning]],
) -> Cleaning | None:
    """Clean the log if that is due. What was done; None if nothing was.

    `first_dirty` is the last `cleaned_to` of this log, 0 if there is none; `clean` runs the cleaner
    off the event loop. Belongs to the event loop's thread, one at a time for each log. Raises
    `CorruptLog` where stored bytes are damaged, `OSError` where there is no room: the log is as it
    was. It goes on being appended to and read.
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
        _log.info("compaction given up, a segment is gone path=%s", error.filename)
        return None
    return cleaning if _swap_in(log, cleaning) else None


def _swap_in(log: Log, cleaning: Cleaning) -> bool:
    """In their order: a tombstone may go only after the records that it covers."""
    for number, segment in enumerate(cleaning.segments):
        if log.offline or not log.replace_segments(segment):
            _log.info("compaction given up, segments are gone directory=%s", log.directory)
            for unused in cleaning.segments[number:]:
                discard(log.directory, unused.base_offset)
            return False
    return True

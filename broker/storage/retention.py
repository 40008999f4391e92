"""Which segments are too old, or too much. Decides; deletes nothing.

Age is the time since a segment was last appended to, by the broker's clock: the modification time
of its log file, which compaction keeps. The timestamps in the records say when something happened,
perhaps ten days before it was shipped, or in 2099 by a broken clock, and decide nothing here.
"""

from bisect import bisect_right

from broker.storage.config import LogConfig
from broker.storage.segment import Segment


def expired(
    segments: list[Segment],
    config: LogConfig,
    now_ms: int,
    start_offset: int,
    exposed_offset: int,
) -> int:
    """How many of the first segments go. All of them, if the active one is too old as well."""
    ends = [segment.base_offset for segment in segments[1:]]
    hidden = bisect_right(ends, start_offset)  # by `delete_before`, and a crash before it was done
    if not config.delete:
        return hidden
    excess = sum(segment.size for segment in segments) - config.retention_bytes
    count = 0
    for segment, end in zip(segments, [*ends, None], strict=True):
        is_old = 0 <= config.retention_ms < now_ms - segment.last_append_ms
        excess -= segment.size
        is_excess = config.retention_bytes >= 0 and excess >= 0 and end is not None
        if not segment.size and end is None:
            break
        if not (is_old or is_excess) or (end is not None and end > exposed_offset):
            break
        count += 1
    return max(count, hidden)

"""Turns events larger than their topic's batch limit into dead letters. Pure.

An event close to the limit is packed alone, which is the worst case, to see whether it fits.
"""

from typing import Final

from msgspec.structs import replace

from agent.accounting.cuts import Cut, DeadLine, Events
from agent.accounting.runs import Excepted, Fate
from agent.encoding.batches.dead_letters import MOST_RAW
from agent.encoding.batches.framing import Stretch
from agent.encoding.batches.plan import TopicPlan
from agent.encoding.batches.record_batch import build
from client.producing.delivery import TopicPartition
from schemas.bodies.checking import MOST_BYTES

_DOUBT: Final = 0.75  # of the limit: below it, no codec makes an event too large
_AROUND: Final = 256


def without_oversized(cut: Cut, stretch: Stretch, plan: TopicPlan, end_position: int) -> Cut:
    """The cut with its oversized events moved to the dead letters, or the cut itself if there are
    none. `stretch` has the cut's events."""
    frame = stretch.frame
    overhead = len(frame.identity) + len(frame.before_body) + _AROUND
    body_limit = int(min(plan.most_batch_bytes, MOST_BYTES) * _DOUBT) - overhead
    if stretch.longest <= body_limit or cut.events is None:
        return cut
    oversized_indexes = [
        index
        for index, length in enumerate(stretch.lengths)
        if length > body_limit and not _fits(stretch.part(index, index + 1), overhead, plan)
    ]
    return (
        _buried(cut, cut.events, oversized_indexes, plan, end_position)
        if oversized_indexes
        else cut
    )


def _fits(alone: Stretch, around: int, plan: TopicPlan) -> bool:
    if alone.lengths[0] + around > MOST_BYTES:
        return False
    target = TopicPartition(plan.topic, plan.partition)
    return build(target, [alone], plan.batches.compression).size <= plan.most_batch_bytes


def _buried(
    cut: Cut, events: Events, oversized: list[int], plan: TopicPlan, end_position: int
) -> Cut:
    """If lines between the events are excepted too, the end of an event is unknown, and so is its
    size in the file."""
    is_exact = not cut.excepted and not cut.dead
    ends = [*events.positions[1:], end_position]
    dead_lines, excepted, lines = [*cut.dead], [*cut.excepted], cut.lines
    for index in oversized:
        body, position = events.bodies[index], events.positions[index]
        reason = (
            f"an event of {len(body):,} bytes is too large for {plan.topic}: "
            f"its batches may have {plan.most_batch_bytes:,} bytes"
        )
        size = ends[index] - position if is_exact else len(body)
        raw_bytes = body[:MOST_RAW] if plan.plain else b""
        dead_lines.append(DeadLine(position, size, raw_bytes, reason, _time(events, index)))
        has_joined_lines = plan.plain and cut.lines != len(events.bodies)
        line_count = 1 + body.count(b"\n") if has_joined_lines else 1
        lines -= line_count
        lost_bytes = ends[index] - position if is_exact else -1
        excepted.append(
            Excepted(Fate.DEAD_LETTERED, line_count, lost_bytes, "too large for a batch")
        )
    return replace(
        cut,
        events=_without(events, frozenset(oversized)),
        dead=sorted(dead_lines, key=lambda each: each.position),
        excepted=tuple(excepted),
        lines=lines,
    )


def _time(events: Events, at: int) -> int:
    return events.times if isinstance(events.times, int) else events.times[at]


def _without(events: Events, oversized: frozenset[int]) -> Events:
    indexes = [index for index in range(len(events.bodies)) if index not in oversized]
    return Events(
        events.times
        if isinstance(events.times, int)
        else [events.times[index] for index in indexes],
        [events.positions[index] for index in indexes],
        [events.bodies[index] for index in indexes],
        None if events.keys is None else [events.keys[index] for index in indexes],
    )

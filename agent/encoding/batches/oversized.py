"""Turns events larger than their topic's batch limit into dead letters. Pure.

An event close to the limit is packed alone, which is the worst case, to see whether it fits.
"""

from typing import Final

from msgspec.structs import replace

from agent.accounting.cuts import Cut, DeadLine, Events
from agent.accounting.runs import Excepted, Fate
from agent.encoding.batches.building import build
from agent.encoding.batches.dead_letters import MOST_RAW
from agent.encoding.batches.framing import Stretch
from agent.encoding.batches.plan import TopicPlan
from client.producing.delivery import TopicPartition
from schemas.bodies.checking import MOST_BYTES

_DOUBT: Final = 0.75  # of the limit: below it, no codec makes an event too large
_AROUND: Final = 256


def without_oversized(cut: Cut, stretch: Stretch, plan: TopicPlan, end_position: int) -> Cut:
    """The cut with its oversized events moved to the dead letters, or the cut itself if there are
    none. `stretch` has the cut's events."""
    frame = stretch.frame
    around = len(frame.identity) + len(frame.before_body) + _AROUND
    doubtful = int(min(plan.most_batch_bytes, MOST_BYTES) * _DOUBT) - around
    if stretch.longest <= doubtful or cut.events is None:
        return cut
    oversized = [
        at
        for at, length in enumerate(stretch.lengths)
        if length > doubtful and not _fits(stretch.part(at, at + 1), around, plan)
    ]
    return _buried(cut, cut.events, oversized, plan, end_position) if oversized else cut


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
    exact = not cut.excepted and not cut.dead
    ends = [*events.positions[1:], end_position]
    dead, excepted, lines = [*cut.dead], [*cut.excepted], cut.lines
    for at in oversized:
        body, position = events.bodies[at], events.positions[at]
        reason = (
            f"an event of {len(body):,} bytes is too large for {plan.topic}: "
            f"its batches may have {plan.most_batch_bytes:,} bytes"
        )
        size = ends[at] - position if exact else len(body)
        raw = body[:MOST_RAW] if plan.plain else b""
        dead.append(DeadLine(position, size, raw, reason, _time(events, at)))
        several = plan.plain and cut.lines != len(events.bodies)
        own = 1 + body.count(b"\n") if several else 1
        lines -= own
        gone = ends[at] - position if exact else -1
        excepted.append(Excepted(Fate.DEAD_LETTERED, own, gone, "too large for a batch"))
    return replace(
        cut,
        events=_without(events, frozenset(oversized)),
        dead=sorted(dead, key=lambda each: each.position),
        excepted=tuple(excepted),
        lines=lines,
    )


def _time(events: Events, at: int) -> int:
    return events.times if isinstance(events.times, int) else events.times[at]


def _without(events: Events, oversized: frozenset[int]) -> Events:
    left = [at for at in range(len(events.bodies)) if at not in oversized]
    return Events(
        events.times if isinstance(events.times, int) else [events.times[at] for at in left],
        [events.positions[at] for at in left],
        [events.bodies[at] for at in left],
        None if events.keys is None else [events.keys[at] for at in left],
    )

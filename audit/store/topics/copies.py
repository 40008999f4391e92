"""Joins the picture of a copy: the reports of agents and brokers on its origin, in another cluster,
with those of its own mirror, brokers and loaders. Pure.

A copy has the partitions and offsets of its origin, so an offset is the same event in both.

Rule 1: The brokers of the origin are a tier before the mirror. Later tiers at the origin, such as
        its loaders, do not concern the copy.
Rule 2: If the copy's log was cut, its former content is copied again to the same offsets. What its
        brokers had counted is absent until they count it again, and then twice in their sums. The
        positions of mirror and loaders stay as they were. Only what agents had shipped into the
        copy itself, while it was open, is lost there.
Rule 3: If the origin's log was cut, other events may have the offsets of those copied before. Then
        offsets prove nothing between the two, and windows are compared by their sums.
Rule 4: What an operator accepted at the origin applies to faults there.
Rule 5: A copy that was opened for writing has offsets of its own, for which its own agents and
        brokers replace the origin's. Sums of windows cannot be attributed then, so only offsets
        tell what the copy's brokers lack. While it is open, nothing more is expected of the
        origin's agents, nor of what they go on to ship there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import structs
from msgspec.structs import replace

from audit.reconciling.picture import (
    Disputed,
    ExpectedAgent,
    Hole,
    Inexact,
    OffsetSpan,
    PartitionPicture,
    Placed,
    Source,
    Tier,
    TierKind,
    TopicPicture,
    UncountedLoss,
    Window,
    WindowSums,
)
from ground.intervals import Intervals, covers, intersection, merged, minus, union, upto

Own = Mapping[int, Intervals]  # by partition
_NONE: Final[Own] = {}
_AGENT: Final = Tier(TierKind.AGENT)
_BROKER: Final = Tier(TierKind.BROKER)
_FOR_EVER: Final = 1 << 60
_ORDER: Final = list(TierKind)
OF_ORIGIN: Final = frozenset({TierKind.AGENT.value, TierKind.ORIGIN.value})


def own_offsets(copy: Iterable[PartitionPicture], marked: Own) -> dict[int, Intervals]:
    """Returns, by partition, the copy's own offsets: those that brokers counted, but not as copied
    ones. Offsets after the last of these are also the copy's own, until a copied offset follows."""
    own_by_partition: dict[int, Intervals] = {}
    for partition in copy:
        copied_offsets = marked.get(partition.number, ())
        own_claims = minus(partition.claimed.get(_BROKER, ()), copied_offsets)
        if partition.is_cut_off or not own_claims:
            continue
        ends = [first for first, _ in copied_offsets[1:]] + [_FOR_EVER]
        spaces = zip([end for _, end in copied_offsets] or [0], ends, strict=True)
        filled_ranges = [(0, copied_offsets[0][0])] if copied_offsets else []
        filled_ranges += spaces if copied_offsets else [(0, _FOR_EVER)]
        own_by_partition[partition.number] = merged(
            (offsets_inside[0][0], end if end == _FOR_EVER else upto(offsets_inside))
            for first, end in filled_ranges
            if (offsets_inside := intersection(own_claims, ((first, end),)))
        )
    return own_by_partition


def joined(
    origin: TopicPicture, copy: TopicPicture, own: Own = _NONE, opened_at: int = -1
) -> TopicPicture:
    """Joins two pictures of the same period. The sources are the origin's, with the rows landed
    from the copy; if some offsets are the copy's `own`, also the sources of its own agents."""
    log = Tier(TierKind.ORIGIN, origin.key.cluster)
    names = {_AGENT: _AGENT, _BROKER: log}
    own_tiers = {tier for tier in copy.tiers if own or tier.kind is not TierKind.AGENT}
    tiers = {*(names[tier] for tier in origin.tiers if tier in names), *own_tiers}
    cut_off_numbers = {
        partition.number: partition.partition
        for partition in copy.partitions
        if partition.is_cut_off
    }
    inexact_spans = [
        span._replace(tier=names[span.tier]) for span in origin.inexact if span.tier in names
    ]
    if any(partition.is_cut_off for partition in origin.partitions):
        inexact_spans.append(Inexact(log, copy.from_time, copy.to_time))
    return replace(
        copy,
        from_time=max(origin.from_time, copy.from_time),
        now=min(origin.now, copy.now),
        tiers=tuple(sorted(tiers, key=lambda tier: (_ORDER.index(tier.kind), tier.destination))),
        windows=_windows(origin, copy, names, cut_off_numbers, is_opened=bool(own)),
        partitions=joined_partitions(origin.partitions, copy.partitions, origin.key.cluster, own),
        open=sorted(
            [
                *(
                    part._replace(tier=names[part.tier])
                    for span in origin.open
                    if span.tier in names
                    for part in _outside(span, own)
                ),
                *(span for span in copy.open if span.partition not in cut_off_numbers),
            ]
        ),
        sources=[*_sources(origin, own), *(copy.sources if own else ())],
        agents=[*_agents(origin, own, opened_at), *(copy.agents if own else ())],
        holes=[*_holes(origin), *copy.holes],
        disputed=[*_disputed(origin), *copy.disputed],
        damaged=[
            *(replace(batch, at=TierKind.ORIGIN) for batch in origin.damaged),
            *(batch for batch in copy.damaged if batch.partition not in cut_off_numbers),
        ],
        withdrawn=[*origin.withdrawn, *_shipped_here(copy)],
        unwatched=[*origin.unwatched, *(copy.unwatched if own else ())],
        inexact=[*inexact_spans, *copy.inexact],
        placed=sorted([*origin.placed, *_placed(copy, cut_off_numbers)]),
        accepted=[
            *(acceptance._replace(kinds=OF_ORIGIN) for acceptance in origin.accepted),
            *copy.accepted,
        ],
        names={**origin.names, **copy.names},
        renewed=origin.renewed | (copy.renewed if own else frozenset()),
        origin=origin.key,
    )


def joined_partitions(
    origin: Iterable[PartitionPicture],
    copy: Iterable[PartitionPicture],
    cluster: str,
    own: Own = _NONE,
) -> list[PartitionPicture]:
    """Joins partitions by offset. Truncated offsets of the origin's log remain unchanged."""
    log = Tier(TierKind.ORIGIN, cluster)
    names = {_AGENT: _AGENT, _BROKER: log}
    partitions: dict[int, PartitionPicture] = {}
    for partition in origin:
        own_intervals = own.get(partition.number, ())
        claimed_offsets = {
            names[tier]: minus(intervals, own_intervals)
            for tier, intervals in partition.claimed.items()
            if tier in names
        }
        partitions[partition.number] = replace(partition, claimed=claimed_offsets)
    copied_claims: dict[int, dict[Tier, Intervals]] = defaultdict(dict)
    for partition in copy:
        claims = copied_claims[partition.partition if partition.is_cut_off else partition.number]
        own_intervals = own.get(partition.number, ())
        for tier, offsets in partition.claimed.items():
            if partition.is_cut_off and tier in names:
                continue
            if tier in names and own_intervals:
                claims[names[tier]] = intersection(offsets, own_intervals)
            if tier != _AGENT:
                claims[tier] = union(claims.get(tier, ()), offsets)
    for number, claimed_offsets in copied_claims.items():
        origin_partition = partitions.get(number, PartitionPicture(number, {}))
        joined_claims = {
            tier: union(origin_partition.claimed.get(tier, ()), claimed_offsets.get(tier, ()))
            for tier in (*origin_partition.claimed, *claimed_offsets)
        }
        partitions[number] = replace(origin_partition, claimed=joined_claims)
    return [partitions[number] for number in sorted(partitions)]


def _outside(span: OffsetSpan, own: Own) -> list[OffsetSpan]:
    """Returns the parts of a span that the copy must have."""
    own_intervals = own.get(span.partition, ())
    if not own_intervals:
        return [span]
    other_intervals = minus(((span.first, span.next_offset),), own_intervals)
    return [span._replace(first=first, next_offset=end) for first, end in other_intervals]


def _sources(origin: TopicPicture, own: Own) -> Sequence[Source]:
    if not own:
        return origin.sources
    return [
        replace(
            source,
            stretches=[
                stretch
                for stretch in source.stretches
                if not covers(
                    own.get(stretch.partition, ()),
                    ((stretch.first, stretch.first + stretch.events),),
                )
            ],
        )
        for source in origin.sources
    ]


def _agents(origin: TopicPicture, own: Own, opened_at: int) -> Sequence[ExpectedAgent]:
    is_open = any(upto(offsets) == _FOR_EVER for offsets in own.values())
    if not is_open or opened_at < 0:
        return origin.agents
    return [
        replace(agent, required_until=min(opened_at, agent.required_until or opened_at))
        for agent in origin.agents
    ]


def _windows(
    origin: TopicPicture,
    copy: TopicPicture,
    names: Mapping[Tier, Tier],
    cut_off: Mapping[int, int],
    *,
    is_opened: bool,
) -> list[Window]:
    untold_tiers = frozenset(names.values()) if is_opened else frozenset[Tier]()
    recounted_places = [place for place in copy.placed if place.partition in cut_off]
    windows: dict[tuple[int, int], Window] = {}
    for window in origin.windows:
        windows[window.start, window.length] = structs.replace(
            window,
            sums=_named(window.sums, names),
            uncounted=untold_tiers | {names[tier] for tier in window.uncounted if tier in names},
        )
    for window in copy.windows:
        identity = window.start, window.length
        joined_window = windows.get(identity)
        window_sums = {
            tier: sums for tier, sums in window.sums.items() if tier.kind is not TierKind.AGENT
        }
        if is_opened:
            window_sums |= _own_sums(window, joined_window, names)
        joined_window = joined_window or Window(*identity, {}, uncounted=untold_tiers)
        windows[identity] = structs.replace(
            joined_window,
            sums={**joined_window.sums, **window_sums},
            uncounted=joined_window.uncounted
            | window.uncounted
            | _counted_again(window, recounted_places),
        )
    return [windows[identity] for identity in sorted(windows)]


def _own_sums(
    window: Window, origins: Window | None, names: Mapping[Tier, Tier]
) -> dict[Tier, WindowSums]:
    """Returns the copy's own sums of a window; if the origin has events in it, too, only the
    agents' sums, added to the origin's."""
    own_sums = {names[tier]: sums for tier, sums in window.sums.items() if tier in names}
    if origins is None:
        return own_sums
    agent_sums = [
        window_part.sums[_AGENT] for window_part in (origins, window) if _AGENT in window_part.sums
    ]
    return {_AGENT: WindowSums(*map(sum, zip(*agent_sums, strict=True)))} if agent_sums else {}


def _named(sums: Mapping[Tier, WindowSums], names: Mapping[Tier, Tier]) -> dict[Tier, WindowSums]:
    return {names[tier]: window_sums for tier, window_sums in sums.items() if tier in names}


def _counted_again(window: Window, recounted: Sequence[Placed]) -> frozenset[Tier]:
    end = window.start + window.length
    is_touched = any(place.from_time < end and window.start < place.to_time for place in recounted)
    return frozenset({_BROKER} if is_touched else ())


def _shipped_here(copy: TopicPicture) -> list[UncountedLoss]:
    """Returns what agents had shipped into the copy while it was open, and its log lost."""
    losses = []
    for partition in copy.partitions:
        for first, end in partition.claimed.get(_AGENT, ()) if partition.is_cut_off else ():
            places = [
                place
                for place in copy.placed
                if place.partition == partition.number
                and place.first < end
                and first < place.next_offset
            ]
            from_time = min((place.from_time for place in places), default=copy.from_time)
            to_time = max((place.to_time for place in places), default=partition.cut_time + 1)
            loss = UncountedLoss(
                partition.partition, first, end - first, partition.reason, from_time, to_time
            )
            losses.append(loss)
    return losses


def _placed(copy: TopicPicture, cut_off: Mapping[int, int]) -> list[Placed]:
    return [place for place in copy.placed if place.partition not in cut_off]


def _disputed(origin: TopicPicture) -> list[Disputed]:
    kinds = {TierKind.AGENT: TierKind.AGENT, TierKind.BROKER: TierKind.ORIGIN}
    return [
        replace(dispute, tier=kinds[dispute.tier])
        for dispute in origin.disputed
        if dispute.tier in kinds
    ]


def _holes(origin: TopicPicture) -> list[Hole]:
    kinds = {TierKind.AGENT: TierKind.AGENT, TierKind.BROKER: TierKind.ORIGIN}
    return [replace(hole, tier=kinds[hole.tier]) for hole in origin.holes if hole.tier in kinds]

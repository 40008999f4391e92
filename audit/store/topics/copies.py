"""The picture of a copy: what agents and brokers have said of its origin, in another cluster, and
what the mirror, the brokers and the loaders of its own have said of it. Pure.

A copy has the partitions and the offsets of its origin, so an offset is the same event in both.

Rule 1: the brokers of the origin are a tier of their own, before the mirror. What is said behind
        them at the origin, such as by its loaders, is no matter of the copy.
Rule 2: where the copy's log was cut, what it had there comes again at the same offsets. What its
        brokers had counted is not there until they count it again, and counts twice in their sums;
        what the mirror or a loader had come to is as it was.
        Only what agents had shipped into the copy itself, while it was open, comes no more: it is
        lost there.
Rule 3: where the origin's log was cut, other events may have the offsets of those that were copied
        before: offsets prove nothing between the two, and windows are compared by their sums.
Rule 4: what an operator has accepted at the origin counts for what is wrong there.
Rule 5: a copy that was opened for writing has offsets of its own: there its own agents and brokers
        speak in the place of the origin's. Which window's sums are whose cannot be told then, and
        offsets alone tell what the brokers of the copy lack. As long as it is open, nothing more is
        expected of the origin's agents, nor of what they go on to ship there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import structs
from msgspec.structs import replace

from audit.picture import (
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
    """Of each partition, the offsets that are its own: brokers have counted them, and not as a
    copy's. What is behind the last of these is its own, too, until something is a copy's again."""
    found: dict[int, Intervals] = {}
    for each in copy:
        theirs = marked.get(each.number, ())
        mine = minus(each.claimed.get(_BROKER, ()), theirs)
        if each.is_cut_off or not mine:
            continue
        ends = [first for first, _ in theirs[1:]] + [_FOR_EVER]
        spaces = zip([end for _, end in theirs] or [0], ends, strict=True)
        filled = [(0, theirs[0][0])] if theirs else []
        filled += spaces if theirs else [(0, _FOR_EVER)]
        found[each.number] = merged(
            (inside[0][0], last if last == _FOR_EVER else upto(inside))
            for first, last in filled
            if (inside := intersection(mine, ((first, last),)))
        )
    return found


def joined(
    origin: TopicPicture, copy: TopicPicture, own: Own = _NONE, opened_at: int = -1
) -> TopicPicture:
    """Both of the same time. The sources are the origin's, with what has landed of the copy; and
    where some of its offsets are its `own`, those of its own agents."""
    log = Tier(TierKind.ORIGIN, origin.key.cluster)
    names = {_AGENT: _AGENT, _BROKER: log}
    theirs = {tier for tier in copy.tiers if own or tier.kind is not TierKind.AGENT}
    tiers = {*(names[tier] for tier in origin.tiers if tier in names), *theirs}
    cut_off = {each.number: each.partition for each in copy.partitions if each.is_cut_off}
    inexact = [
        each._replace(tier=names[each.tier]) for each in origin.inexact if each.tier in names
    ]
    if any(each.is_cut_off for each in origin.partitions):
        inexact.append(Inexact(log, copy.from_time, copy.to_time))
    return replace(
        copy,
        from_time=max(origin.from_time, copy.from_time),
        now=min(origin.now, copy.now),
        tiers=tuple(sorted(tiers, key=lambda tier: (_ORDER.index(tier.kind), tier.destination))),
        windows=_windows(origin, copy, names, cut_off, is_opened=bool(own)),
        partitions=joined_partitions(origin.partitions, copy.partitions, origin.key.cluster, own),
        open=sorted(
            [
                *(
                    each._replace(tier=names[each.tier])
                    for span in origin.open
                    if span.tier in names
                    for each in _outside(span, own)
                ),
                *(each for each in copy.open if each.partition not in cut_off),
            ]
        ),
        sources=[*_sources(origin, own), *(copy.sources if own else ())],
        agents=[*_agents(origin, own, opened_at), *(copy.agents if own else ())],
        holes=[*_holes(origin), *copy.holes],
        disputed=[*_disputed(origin), *copy.disputed],
        damaged=[
            *(replace(each, at=TierKind.ORIGIN) for each in origin.damaged),
            *(each for each in copy.damaged if each.partition not in cut_off),
        ],
        withdrawn=[*origin.withdrawn, *_shipped_here(copy)],
        unwatched=[*origin.unwatched, *(copy.unwatched if own else ())],
        inexact=[*inexact, *copy.inexact],
        placed=sorted([*origin.placed, *_placed(copy, cut_off)]),
        accepted=[*(each._replace(kinds=OF_ORIGIN) for each in origin.accepted), *copy.accepted],
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
    """By offset. What was cut off from the origin's log is as it was there."""
    log = Tier(TierKind.ORIGIN, cluster)
    names = {_AGENT: _AGENT, _BROKER: log}
    found: dict[int, PartitionPicture] = {}
    for each in origin:
        mine = own.get(each.number, ())
        claimed = {names[tier]: minus(e, mine) for tier, e in each.claimed.items() if tier in names}
        found[each.number] = replace(each, claimed=claimed)
    copied: dict[int, dict[Tier, Intervals]] = defaultdict(dict)
    for each in copy:
        said = copied[each.partition if each.is_cut_off else each.number]
        mine = own.get(each.number, ())
        for tier, some in each.claimed.items():
            if each.is_cut_off and tier in names:
                continue
            if tier in names and mine:
                said[names[tier]] = intersection(some, mine)
            if tier != _AGENT:
                said[tier] = union(said.get(tier, ()), some)
    for number, claimed in copied.items():
        known = found.get(number, PartitionPicture(number, {}))
        both = {
            tier: union(known.claimed.get(tier, ()), claimed.get(tier, ()))
            for tier in (*known.claimed, *claimed)
        }
        found[number] = replace(known, claimed=both)
    return [found[number] for number in sorted(found)]


def _outside(span: OffsetSpan, own: Own) -> list[OffsetSpan]:
    """What of it the copy is to have."""
    mine = own.get(span.partition, ())
    if not mine:
        return [span]
    rest = minus(((span.first, span.next_offset),), mine)
    return [span._replace(first=first, next_offset=end) for first, end in rest]


def _sources(origin: TopicPicture, own: Own) -> Sequence[Source]:
    if not own:
        return origin.sources
    return [
        replace(
            source,
            stretches=[
                each
                for each in source.stretches
                if not covers(
                    own.get(each.partition, ()), ((each.first, each.first + each.events),)
                )
            ],
        )
        for source in origin.sources
    ]


def _agents(origin: TopicPicture, own: Own, opened_at: int) -> Sequence[ExpectedAgent]:
    is_open = any(upto(each) == _FOR_EVER for each in own.values())
    if not is_open or opened_at < 0:
        return origin.agents
    return [
        replace(each, required_until=min(opened_at, each.required_until or opened_at))
        for each in origin.agents
    ]


def _windows(
    origin: TopicPicture,
    copy: TopicPicture,
    names: Mapping[Tier, Tier],
    cut_off: Mapping[int, int],
    *,
    is_opened: bool,
) -> list[Window]:
    untold = frozenset(names.values()) if is_opened else frozenset[Tier]()
    again = [each for each in copy.placed if each.partition in cut_off]
    found: dict[tuple[int, int], Window] = {}
    for window in origin.windows:
        found[window.start, window.length] = structs.replace(
            window,
            sums=_named(window.sums, names),
            uncounted=untold | {names[tier] for tier in window.uncounted if tier in names},
        )
    for window in copy.windows:
        at = window.start, window.length
        known = found.get(at)
        mine = {t: sums for t, sums in window.sums.items() if t.kind is not TierKind.AGENT}
        if is_opened:
            mine |= _own_sums(window, known, names)
        known = known or Window(*at, {}, uncounted=untold)
        found[at] = structs.replace(
            known,
            sums={**known.sums, **mine},
            uncounted=known.uncounted | window.uncounted | _counted_again(window, again),
        )
    return [found[at] for at in sorted(found)]


def _own_sums(
    window: Window, known: Window | None, names: Mapping[Tier, Tier]
) -> dict[Tier, WindowSums]:
    """What the origin has nothing of is the copy's own. Of a window in which both have something,
    the agents' sums are added up."""
    found = {names[tier]: sums for tier, sums in window.sums.items() if tier in names}
    if known is None:
        return found
    both = [each.sums[_AGENT] for each in (known, window) if _AGENT in each.sums]
    return {_AGENT: WindowSums(*map(sum, zip(*both, strict=True)))} if both else {}


def _named(sums: Mapping[Tier, WindowSums], names: Mapping[Tier, Tier]) -> dict[Tier, WindowSums]:
    return {names[tier]: each for tier, each in sums.items() if tier in names}


def _counted_again(window: Window, again: Sequence[Placed]) -> frozenset[Tier]:
    end = window.start + window.length
    touched = any(each.from_time < end and window.start < each.to_time for each in again)
    return frozenset({_BROKER} if touched else ())


def _shipped_here(copy: TopicPicture) -> list[UncountedLoss]:
    """What agents had shipped into the copy itself while it was open, and its log has lost."""
    found = []
    for each in copy.partitions:
        for first, end in each.claimed.get(_AGENT, ()) if each.is_cut_off else ():
            when = [
                placed
                for placed in copy.placed
                if placed.partition == each.number
                and placed.first < end
                and first < placed.next_offset
            ]
            from_time = min((placed.from_time for placed in when), default=copy.from_time)
            to_time = max((placed.to_time for placed in when), default=each.cut_time + 1)
            loss = UncountedLoss(
                each.partition, first, end - first, each.reason, from_time, to_time
            )
            found.append(loss)
    return found


def _placed(copy: TopicPicture, cut_off: Mapping[int, int]) -> list[Placed]:
    return [each for each in copy.placed if each.partition not in cut_off]


def _disputed(origin: TopicPicture) -> list[Disputed]:
    kinds = {TierKind.AGENT: TierKind.AGENT, TierKind.BROKER: TierKind.ORIGIN}
    return [replace(e, tier=kinds[e.tier]) for e in origin.disputed if e.tier in kinds]


def _holes(origin: TopicPicture) -> list[Hole]:
    kinds = {TierKind.AGENT: TierKind.AGENT, TierKind.BROKER: TierKind.ORIGIN}
    return [replace(e, tier=kinds[e.tier]) for e in origin.holes if e.tier in kinds]

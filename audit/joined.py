"""The picture of a copy: what agents and brokers have said of its origin, in another cluster, and
what the mirror, the brokers and the loaders of its own have said of it. Pure.

A copy has the partitions and the offsets of its origin, so an offset is the same event in both.

Rule 1: the brokers of the origin are a tier of their own, before the mirror. What is said behind
        them at the origin, such as by its loaders, is no matter of the copy.
Rule 2: where the copy's log was cut, what it had there comes again at the same offsets. What its
        brokers had counted is not there until they count it again, and counts twice in their sums;
        what the mirror or a loader had come to is as it was.
Rule 3: where the origin's log was cut, other events may have the offsets of those that were copied
        before: offsets prove nothing between the two, and windows are compared by their sums.
Rule 4: what an operator has accepted at the origin counts for what is wrong there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from audit.picture import (
    Hole,
    Inexact,
    PartitionPicture,
    Placed,
    Tier,
    TierKind,
    TopicPicture,
    Window,
    WindowSums,
)
from ground.intervals import Intervals, union

_BROKER: Final = Tier(TierKind.BROKER)
_ORDER: Final = list(TierKind)
OF_ORIGIN: Final = frozenset({TierKind.AGENT.value, TierKind.ORIGIN.value})


def joined(origin: TopicPicture, copy: TopicPicture) -> TopicPicture:
    """Both of the same time. The sources are the origin's, with what has landed of the copy."""
    log = Tier(TierKind.ORIGIN, origin.key.cluster)
    names = {Tier(TierKind.AGENT): Tier(TierKind.AGENT), _BROKER: log}
    theirs = tuple(tier for tier in copy.tiers if tier.kind is not TierKind.AGENT)
    tiers = (*(names[tier] for tier in origin.tiers if tier in names), *theirs)
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
        windows=_windows(origin, copy, names, cut_off),
        partitions=joined_partitions(origin.partitions, copy.partitions, origin.key.cluster),
        open=sorted(
            [
                *(e._replace(tier=names[e.tier]) for e in origin.open if e.tier in names),
                *(each for each in copy.open if each.partition not in cut_off),
            ]
        ),
        sources=origin.sources,
        agents=origin.agents,
        holes=[*_holes(origin), *copy.holes],
        damaged=[
            *(replace(each, at=TierKind.ORIGIN) for each in origin.damaged),
            *(each for each in copy.damaged if each.partition not in cut_off),
        ],
        withdrawn=origin.withdrawn,
        unwatched=origin.unwatched,
        inexact=[*inexact, *copy.inexact],
        placed=sorted([*origin.placed, *_placed(copy, cut_off)]),
        accepted=[*(each._replace(kinds=OF_ORIGIN) for each in origin.accepted), *copy.accepted],
        names={**origin.names, **copy.names},
        renewed=origin.renewed,
        origin=origin.key,
    )


def joined_partitions(
    origin: Iterable[PartitionPicture], copy: Iterable[PartitionPicture], cluster: str
) -> list[PartitionPicture]:
    """By offset. What was cut off from the origin's log is as it was there."""
    log = Tier(TierKind.ORIGIN, cluster)
    names = {Tier(TierKind.AGENT): Tier(TierKind.AGENT), _BROKER: log}
    found: dict[int, PartitionPicture] = {}
    for each in origin:
        claimed = {names[tier]: some for tier, some in each.claimed.items() if tier in names}
        found[each.number] = replace(each, claimed=claimed)
    copied: dict[int, dict[Tier, Intervals]] = defaultdict(dict)
    for each in copy:
        mine = copied[each.partition if each.is_cut_off else each.number]
        for tier, some in each.claimed.items():
            if tier.kind is TierKind.AGENT or (each.is_cut_off and tier == _BROKER):
                continue
            mine[tier] = union(mine.get(tier, ()), some)
    for number, claimed in copied.items():
        known = found.get(number, PartitionPicture(number, {}))
        found[number] = replace(known, claimed={**known.claimed, **claimed})
    return [found[number] for number in sorted(found)]


def _windows(
    origin: TopicPicture,
    copy: TopicPicture,
    names: Mapping[Tier, Tier],
    cut_off: Mapping[int, int],
) -> list[Window]:
    again = [each for each in copy.placed if each.partition in cut_off]
    found: dict[tuple[int, int], Window] = {}
    for window in origin.windows:
        found[window.start, window.length] = replace(
            window,
            sums=_named(window.sums, names),
            uncounted=frozenset(names[tier] for tier in window.uncounted if tier in names),
        )
    for window in copy.windows:
        at = window.start, window.length
        known = found.get(at, Window(*at, {}))
        mine = {t: sums for t, sums in window.sums.items() if t.kind is not TierKind.AGENT}
        found[at] = replace(
            known,
            sums={**known.sums, **mine},
            uncounted=known.uncounted | window.uncounted | _counted_again(window, again),
        )
    return [found[at] for at in sorted(found)]


def _named(sums: Mapping[Tier, WindowSums], names: Mapping[Tier, Tier]) -> dict[Tier, WindowSums]:
    return {names[tier]: each for tier, each in sums.items() if tier in names}


def _counted_again(window: Window, again: Sequence[Placed]) -> frozenset[Tier]:
    end = window.start + window.length
    touched = any(each.from_time < end and window.start < each.to_time for each in again)
    return frozenset({_BROKER} if touched else ())


def _placed(copy: TopicPicture, cut_off: Mapping[int, int]) -> list[Placed]:
    return [each for each in copy.placed if each.partition not in cut_off]


def _holes(origin: TopicPicture) -> list[Hole]:
    kinds = {TierKind.AGENT: TierKind.AGENT, TierKind.BROKER: TierKind.ORIGIN}
    return [replace(e, tier=kinds[e.tier]) for e in origin.holes if e.tier in kinds]

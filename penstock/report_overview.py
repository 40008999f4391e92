"""All topics of a report side by side: which columns they need, and what stands in them."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from audit.http.answers import TierTotals, TopicReport
from penstock.report_words import Count, tier_name

_SUMS: Final = ("pending", "missing", "excess")


class Line(NamedTuple):
    """One topic: events by place, None where it is not expected to be; and what does not add up."""

    topic: TopicReport
    events: tuple[Count | None, ...]
    sums: tuple[Count, ...]


class Overview(NamedTuple):
    """`sums` are those of which any topic has something."""

    clusters: bool  # whether they are of several
    places: tuple[str, ...]
    sums: tuple[str, ...]
    lines: tuple[Line, ...]


def overview(topics: Sequence[TopicReport]) -> Overview:
    tiers = {_place(tier): tier for topic in topics for tier in topic.tiers}
    several = several_roots(list(tiers.values()))
    sums = tuple(name for name in _SUMS if any(getattr(each, name) for each in topics))
    lines = []
    for topic in topics:
        at = {_place(tier): Count(tier.events) for tier in topic.tiers}
        events = tuple(at.get(place) for place in tiers)
        lines.append(Line(topic, events, tuple(Count(getattr(topic, name)) for name in sums)))
    return Overview(
        clusters=len({each.cluster for each in topics}) > 1,
        places=tuple(tier_name(each, several=several) for each in tiers.values()),
        sums=sums,
        lines=tuple(lines),
    )


def several_roots(tiers: Sequence[TierTotals]) -> bool:
    """Whether a tier's kind alone does not say which it is."""
    return len({each.tier for each in tiers}) < len({_place(each) for each in tiers})


def _place(tier: TierTotals) -> tuple[str, str]:
    return tier.tier, tier.destination

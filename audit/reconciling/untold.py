"""Rows of files, or of the ends of files, of which no agent has spoken.

An agent says what it has shipped some seconds after it has. If it is killed before that and its
data directory is deleted, nobody ever says it, and the next agent of that host ships the same lines
again, as other files. So where a host has had several agents, such rows may be there twice; nobody
can know. Once each agent that is left has said everything from before these rows were first heard
of, it is none of theirs. Elsewhere they are somebody's who numbers events without being an agent.
"""

from collections.abc import Iterator
from typing import NamedTuple

from audit.picture import Interval, Landing, Source, Tier, TierKind, TopicPicture
from audit.reconciling import statements
from audit.reconciling.faults import Fault
from audit.reconciling.intervals import minus, upto
from audit.verdicts import Finding, Kind


class _Untold(NamedTuple):
    source: Source
    tier: Tier
    seqs: Interval
    landing: Landing


def untold(picture: TopicPicture) -> Iterator[Fault]:
    """Those of which nobody will speak any more."""
    of_agents = {each.agent: each.until for each in picture.agents}
    for each in _found(picture):
        source, (first, after), landing = each.source, each.seqs, each.landing
        if not _is_settled(picture, landing):
            continue
        done = min(of_agents.get(source.agent, 0), landing.to_time - 1)
        finding = Finding(
            kind=Kind.UNKNOWN,
            words="",
            tier=each.tier.kind.value,
            destination=each.tier.destination,
            host=source.host or (min(picture.renewed) if len(picture.renewed) == 1 else ""),
            agent=source.agent,
            path=source.path,
            source=source.source,
            seq=first,
            events=after - first,
            from_time=max(landing.from_time, done),
            to_time=landing.to_time,
        )
        yield Fault(finding)


def young(picture: TopicPicture) -> list[Landing]:
    """Those of which somebody may still speak."""
    return [
        each.landing
        for each in _found(picture)
        if not _is_settled(picture, each.landing)
        and each.landing.from_time < picture.to_time
        and picture.from_time < each.landing.to_time
    ]


def _found(picture: TopicPicture) -> Iterator[_Untold]:
    living = {each.agent for each in picture.agents if each.agent and each.required_until is None}
    for source in picture.sources:
        is_renewed = source.host in picture.renewed if source.agent else picture.renewed
        if not is_renewed or source.agent in living:
            continue
        told = ((0, upto(source.shipped)),) if source.shipped else ()
        for tier in picture.tiers:
            for each in minus(source.landed.get(tier, ()), told):
                yield _Untold(source, tier, each, source.landings[tier])


def _is_settled(picture: TopicPicture, landing: Landing) -> bool:
    due = landing.said + picture.grace_millis
    return not any(
        each.required_until is None and each.until < due for each in picture.agents
    ) and not any(
        hole.tier is TierKind.AGENT and statements.is_young(hole, picture) for hole in picture.holes
    )

"""Tells which programs sign their statements, and on which unsigned ones a topic's verdict rests.

A program is found by the tier and host of its journals, an agent by its journal. Of several
journals of a program, those count that were written lately: an earlier release had others.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from audit.reconciling import words
from audit.reconciling.picture import TierKind, TopicKey
from audit.service.service import Service, now_millis
from audit.store.entries.journal_keys import REJECTED, SIGNED, UNSIGNED, SignedJournal
from audit.store.judged_hours import HOUR

PROGRAMS: Final = {
    TierKind.AGENT: "agent",
    TierKind.BROKER: "broker",
    TierKind.MIRROR: "mirror",
    TierKind.HDFS: "loader",
}
STATES: Final = (SIGNED, UNSIGNED, REJECTED)  # the worst last


class Signatures(NamedTuple):
    """Which programs sign their statements."""

    by_place: Mapping[tuple[str, str, str], str]  # by cluster, tier and host
    counts: Mapping[str, Mapping[str, int]]  # by program and state
    rejected_agents: tuple[SignedJournal, ...]

    def of(self, cluster: str, tier: TierKind, host: str) -> str:
        return self.by_place.get((cluster, tier.value, host), "")


def signatures(service: Service, cluster: str) -> Signatures:
    """Returns which programs of one cluster or all sign their statements."""

    def make() -> Signatures:
        now = service.standing.as_of or now_millis()
        since = now - int(service.config.expected * 1000)
        journals = service.reading.signed_journals(cluster)
        return _signatures(journal for journal in journals if journal.last >= since)

    return service.kept(("signatures", cluster), make)


def _signatures(journals: Iterable[SignedJournal]) -> Signatures:
    by_place: defaultdict[tuple[str, str, str], list[SignedJournal]] = defaultdict(list)
    counts: dict[str, Counter[str]] = {program: Counter() for program in PROGRAMS.values()}
    rejected_agents: list[SignedJournal] = []
    for journal in journals:
        if journal.tier == TierKind.AGENT:
            counts[PROGRAMS[TierKind.AGENT]][journal.state] += 1
            if journal.state == REJECTED:
                rejected_agents.append(journal)
        else:
            by_place[journal.cluster, journal.tier, journal.host].append(journal)
    states = {place: _worst_of_newest(group) for place, group in by_place.items()}
    for (_, tier, _), state in states.items():
        if tier in set(TierKind) and (program := PROGRAMS.get(TierKind(tier))):
            counts[program][state] += 1
    return Signatures(
        states,
        {program: dict(states) for program, states in counts.items() if states},
        tuple(rejected_agents),
    )


def _worst_of_newest(journals: list[SignedJournal]) -> str:
    newest = max(journal.last for journal in journals)
    return max(
        (journal.state for journal in journals if journal.last >= newest - HOUR),
        key=STATES.index,
    )


def reservations(service: Service, key: TopicKey, from_time: int, to_time: int) -> list[str]:
    """Returns on which statements without a signature or a digest the verdict about a topic rests,
    in words. A copy depends on the statements about its origin, too."""
    if service.standing.is_deleted(key):
        return []
    keys = {key, service.reading.origin(key) or key}
    writers: Counter[str] = Counter()
    unsigned: Counter[str] = Counter()
    undigested = 0
    for row in (
        row for topic in keys for row in service.reading.writers(topic, from_time, to_time)
    ):
        writers[row.tier] += row.journals
        unsigned[row.tier] += row.unsigned
        undigested += row.undigested if row.tier == TierKind.AGENT else 0
    sentences = [
        words.unsigned(program, unsigned[tier], writers[tier])
        for tier, program in PROGRAMS.items()
        if unsigned[tier]
    ]
    if undigested:
        sentences.append(words.undigested(undigested, writers[TierKind.AGENT]))
    return sentences

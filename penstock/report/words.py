"""How a report's figures are written, in the terminal and on a page.

And which of them stand side by side: an overview has the columns that its topics need.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from audit.api.answers import (
    FailingLoad,
    Headline,
    ReportAnswer,
    TierTotals,
    TopicFinding,
    TopicReport,
)
from audit.headline import MARKS, NOT_LOADED, JudgedTopics, headline
from audit.reconciling.findings import FaultKind, Finding, Kinds, State, summed
from audit.reconciling.topic_verdict import Wait
from ground.printable import one_line
from penstock.cli.time_arguments import time_text

UNKNOWN: Final = "?"
_TIERS: Final = {"hdfs": "files"}  # whatever file system they are on
_WAITED_FOR: Final = {"agent": "an agent", "broker": "a broker", "hdfs": "the loader"} | {
    "origin": "what it is a copy of",
    "mirror": "the mirror",
}
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPANS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_FEW: Final = 10
_SUMS: Final = ("pending", "missing", "excess", "changed", "unknown")


class Count(int):
    """A number of things, with its thousands told apart; what is below 0 is not known."""

    def __str__(self) -> str:
        return UNKNOWN if self < 0 else f"{int(self):,}"


class AtLeast(Count):
    """There are more, and nobody knows how many."""

    def __str__(self) -> str:
        return f"≥{super().__str__()}"


def events_of(tier: TierTotals) -> Count:
    return AtLeast(tier.events) if tier.at_least else Count(tier.events)


def size(count: int) -> str:
    """Of bytes: with as many digits as one reads."""
    if count < 0:
        return UNKNOWN
    value, step = float(count), 0
    while value >= 1024 and step < len(_UNITS) - 1:
        value, step = value / 1024, step + 1
    return f"{count:,} bytes" if step == 0 else f"{value:,.1f} {_UNITS[step]}"


def span(millis: int) -> str:
    """How long, roughly; nothing if it is not known."""
    if millis < 0:
        return "-"
    for length, unit in _SPANS:
        if millis >= length:
            value = millis / length
            return f"{value:.1f} {unit}" if value < _FEW else f"{value:.0f} {unit}"
    return f"{millis} ms"


def delays_of(tier: TierTotals) -> tuple[str, ...]:
    """p50, p95, p99 and max, of which only the last is a bound."""
    most = span(tier.max)
    return (span(tier.p50), span(tier.p95), span(tier.p99), f"< {most}" if tier.max >= 0 else most)


class ShownVerdict(NamedTuple):
    """The state of a topic as it is shown: what its worst state would hide stands beside it."""

    state: State
    mark: str
    name: str

    @property
    def words(self) -> str:
        return f"{self.mark} {self.name}"


def topic_shown(topic: TopicReport) -> ShownVerdict:
    """Waiting does not help a table that is not loaded."""
    state = topic.state
    if topic.failing_loads and state is State.PENDING:
        return ShownVerdict(state, NOT_LOADED, "not loaded")
    name = marked(faults_of(topic.kinds, state)) if state.is_fault else state.value
    return ShownVerdict(state, MARKS[state], name)


def faults_of(kinds: Kinds, state: State) -> list[State]:
    """The states to be shown side by side, the worst first: what is wrong, or else the state."""
    found = list(dict.fromkeys(each.kind.state for each in kinds))
    return found if found and found[0] is state else [state, *(s for s in found if s is not state)]


def marked(states: Sequence[State]) -> str:
    """`changed, ✗ missing`: without the mark of the first, which stands before it."""
    first, *others = states
    return ", ".join((first.value, *(f"{MARKS[each]} {each.value}" for each in others)))


def headline_on(state: State, topics: Sequence[TopicReport]) -> Headline:
    """The verdict on these topics in one sentence."""
    return headline(
        JudgedTopics(
            state=state,
            findings=[
                TopicFinding(
                    cluster=topic.cluster,
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    finding=finding,
                )
                for topic in topics
                for finding in topic.findings
                if not finding.accepted
            ],
            kinds=summed(count for topic in topics for count in topic.kinds),
            failing_loads=[load for topic in topics for load in topic.failing_loads],
            events=sum(each.tiers[-1].events for each in topics if each.tiers),
            waits=any(each.pending or each.waits or each.state is State.PENDING for each in topics),
            complete_until=min(
                (each.complete_until for each in topics if each.complete_until >= 0), default=-1
            ),
            accepted_unknown=any(map(is_partly_unseen, topics)),
        )
    )


def headline_words(headline: Headline) -> str:
    """Without the sign."""
    return one_line(f"{headline.title}; {headline.more}" if headline.more else headline.title)


def is_partly_unseen(topic: TopicReport) -> bool:
    """Whether there were times in which nobody watched, which count as accepted."""
    return any(each.is_accepted_unknown for each in topic.findings)


def failing_words(load: FailingLoad) -> str:
    """Since when a table is not loaded, why, and what to do."""
    since = time_text(load.since // 1000 * 1000)
    cure = f". What to do: {load.cure}" if load.cure else ""
    return one_line(f"not loaded into {load.destination} since {since}: {load.reason}{cure}")


def wait_words(wait: Wait) -> str:
    """Who is waited for, and for what."""
    return one_line(f"waits for {_WAITED_FOR.get(wait.on, f'the {wait.on}')}: {wait.words}")


def subject(report: ReportAnswer) -> str:
    """What the report is about, and up to when it is known."""
    asked = f"{time_text(report.from_time)} to {time_text(report.to_time)} UTC"
    if report.as_of <= 0:
        return f"{asked}; the ledger is still being read"
    return f"{asked}; the ledger is read up to {time_text(report.as_of // 1000 * 1000)}"


def topic_name(topic: TopicReport) -> str:
    """With the id of one that was deleted or retired: another one may have that name."""
    gone = f" (deleted or retired, id {topic.topic_id})"
    return topic.topic + gone if topic.deleted else topic.topic


def flow(topic: TopicReport) -> str:
    """The sum of what was read, which comes out even."""
    lines = topic.flow
    parts = [
        f"shipped {Count(lines.shipped)}",
        f"filtered {Count(lines.filtered)}",
        f"dead {Count(lines.dead)}",
        f"lost {Count(lines.lost)}",
    ]
    lost = f" ({size(lines.lost_bytes)})" if lines.lost_bytes else ""
    return f"read {Count(lines.read)} = {' + '.join(parts)}{lost}"


def tier_name(tier: TierTotals, *, several: bool) -> str:
    """With its root only where there is more than one."""
    name = _TIERS.get(tier.tier, tier.tier)
    return one_line(f"{name} {tier.destination}".strip() if several else name)


def unclaimed_words(topic: TopicReport) -> list[str]:
    """Events at the brokers that no earlier tier has reported, or has yet to report."""
    said = []
    if others := topic.unclaimed - topic.unclaimed_yet:
        are, them = (
            ("event at the brokers is", "it")
            if others == 1
            else ("events at the brokers are", "them")
        )
        said.append(
            f"{Count(others)} {are} reported by no agent: other producers sent {them}, or an agent "
            f"did so just before its host lost power, and sent {them} again"
        )
    if yet := topic.unclaimed_yet:
        are, they, them = (
            ("event is", "it is", "it") if yet == 1 else ("events are", "they are", "them")
        )
        said.append(
            f"{Count(yet)} {are} not reported by an earlier tier yet: {they} of other producers, "
            f"or an agent or a broker has still to report {them}"
        )
    return said


def left_out(shown: int, total: int, what: str) -> str:
    """Of a list that goes on; empty if it does not."""
    return f"and {total - shown:,} more {what}" if total > shown else ""


def finding_words(finding: Finding) -> str:
    """The sentence; the source as `penstock audit accept` wants it; why it was accepted."""
    source = f" [source {finding.source}]" if finding.source else ""
    accepted = f" (accepted: {finding.accepted})" if finding.accepted else ""
    return one_line(f"{finding.words}{source}{accepted}")


class Line(NamedTuple):
    """One topic: events by place, None where it is not expected to be; and what does not add up."""

    topic: TopicReport
    events: tuple[Count | None, ...]
    sums: tuple[Count, ...]


class ReportOverview(NamedTuple):
    """`sums` are those of which any topic has something."""

    clusters: bool  # whether they are of several
    places: tuple[str, ...]
    sums: tuple[str, ...]
    lines: tuple[Line, ...]


def overview(topics: Sequence[TopicReport]) -> ReportOverview:
    tiers = {_place(tier): tier for topic in topics for tier in topic.tiers}
    several = several_roots(list(tiers.values()))
    sums = tuple(name for name in _SUMS if any(_sum(each, name) for each in topics))
    lines = []
    for topic in topics:
        at = {_place(tier): events_of(tier) for tier in topic.tiers}
        events = tuple(at.get(place) for place in tiers)
        lines.append(Line(topic, events, tuple(_sum(topic, name) for name in sums)))
    return ReportOverview(
        clusters=len({each.cluster for each in topics}) > 1,
        places=tuple(tier_name(each, several=several) for each in tiers.values()),
        sums=sums,
        lines=tuple(lines),
    )


def _sum(topic: TopicReport, name: str) -> Count:
    """Events; of what cannot be proven, stretches."""
    if name == "changed":
        return _count(topic.kinds, FaultKind.CHANGED, "events")
    if name == "unknown":
        return _count(topic.kinds, FaultKind.UNKNOWN, "findings")
    return Count(getattr(topic, name))


def _count(kinds: Kinds, kind: FaultKind, name: str) -> Count:
    """-1 if nobody knows how many events it is about."""
    found = next((each for each in kinds if each.kind is kind), None)
    if found is None:
        return Count(0)
    return Count(getattr(found, name) or -1)


def several_roots(tiers: Sequence[TierTotals]) -> bool:
    """Whether a tier's kind alone does not say which it is."""
    return len({each.tier for each in tiers}) < len({_place(each) for each in tiers})


def _place(tier: TierTotals) -> tuple[str, str]:
    return tier.tier, tier.destination

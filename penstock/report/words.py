"""The wording and number formats of reports, for the terminal and the page.

Also decides the columns of an overview: those that its topics need.
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
    UnreadInput,
)
from audit.headline import MARKS, NOT_LOADED, JudgedTopics, Unreported, headline
from audit.reconciling.dead_letters import (
    DeadLetters,
    placed_words,
    table_of_dead,
    topic_of_dead,
)
from audit.reconciling.findings import FaultKind, Finding, Kinds, State, summed
from audit.reconciling.picture import TierKind, TopicKey
from audit.reconciling.topic_verdict import Wait
from ground.printable import one_line
from penstock.cli.time_arguments import time_text

UNKNOWN: Final = "?"
_TIERS: Final = {"hdfs": "files"}  # on whichever file system
_WAITED_FOR: Final = {"agent": "an agent", "broker": "a broker", "hdfs": "the loader"} | {
    "origin": "the topic that it copies",
    "mirror": "the mirror",
}
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPANS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_FEW: Final = 10
_SUMS: Final = ("dead", "pending", "missing", "excess", "changed", "unknown")
UNFAULTY: Final = frozenset({"dead", "pending"})  # of these sums


class Count(int):
    """A number with thousands separators; unknown if it is negative."""

    def __str__(self) -> str:
        return UNKNOWN if self < 0 else f"{int(self):,}"


class AtLeast(Count):
    """A number that is a lower bound."""

    def __str__(self) -> str:
        return f"≥{super().__str__()}"


def events_of(tier: TierTotals) -> Count:
    return AtLeast(tier.events) if tier.at_least else Count(tier.events)


def size(count: int) -> str:
    """Formats a number of bytes with one decimal place."""
    if count < 0:
        return UNKNOWN
    value, step = float(count), 0
    while value >= 1024 and step < len(_UNITS) - 1:
        value, step = value / 1024, step + 1
    return f"{count:,} bytes" if step == 0 else f"{value:,.1f} {_UNITS[step]}"


def span(millis: int) -> str:
    """Formats a duration in its largest unit; "-" if it is unknown."""
    if millis < 0:
        return "-"
    for length, unit in _SPANS:
        if millis >= length:
            value = millis / length
            return f"{value:.1f} {unit}" if value < _FEW else f"{value:.0f} {unit}"
    return f"{millis} ms"


def delays_of(tier: TierTotals) -> tuple[str, ...]:
    """Returns p50, p95, p99 and maximum, of which the maximum is shown as a bound."""
    maximum = span(tier.max)
    return (
        span(tier.p50),
        span(tier.p95),
        span(tier.p99),
        f"< {maximum}" if tier.max >= 0 else maximum,
    )


class ShownVerdict(NamedTuple):
    """A topic's state as it is shown, together with states that its worst state would hide."""

    state: State
    mark: str
    name: str

    @property
    def words(self) -> str:
        return f"{self.mark} {self.name}"


def topic_shown(topic: TopicReport) -> ShownVerdict:
    """Returns the verdict on a topic. A failing load outranks pending, since waiting does not
    repair it."""
    state = topic.state
    if topic.failing_loads and state is State.PENDING:
        return ShownVerdict(state, NOT_LOADED, "not loaded")
    if state is State.COMPLETE and topic.complete_until > 0:
        return ShownVerdict(state, MARKS[state], f"up to {time_text(topic.complete_until)}")
    name = marked(faults_of(topic.kinds, state)) if state.is_fault else state.value
    return ShownVerdict(state, MARKS[state], name)


def faults_of(kinds: Kinds, state: State) -> list[State]:
    """Returns the states to show side by side, the worst first: those of the faults, with `state`
    in front if it is none of them."""
    states = list(dict.fromkeys(kind.kind.state for kind in kinds))
    return (
        states
        if states and states[0] is state
        else [state, *(fault for fault in states if fault is not state)]
    )


def marked(states: Sequence[State]) -> str:
    """Returns the states with their marks, such as `changed, ✗ missing`; the caller shows the first
    mark."""
    worst_state, *rest = states
    return ", ".join((worst_state.value, *(f"{MARKS[state]} {state.value}" for state in rest)))


def headline_on(
    state: State, topics: Sequence[TopicReport], *, are_unread: bool = False
) -> Headline:
    """Returns the verdict on these topics in one sentence. `are_unread` means that an agent does
    not read all of its inputs."""
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
                if finding.is_open
            ],
            kinds={
                TopicKey(topic.cluster, topic.topic, topic.topic_id): topic.kinds
                for topic in topics
            },
            failing_loads=[load for topic in topics for load in topic.failing_loads],
            events=sum(topic.tiers[-1].events for topic in topics if topic.tiers),
            waits=any(
                topic.pending or topic.waits or topic.state is State.PENDING for topic in topics
            ),
            complete_until=min(
                (topic.complete_until for topic in topics if topic.complete_until >= 0), default=-1
            ),
            settled=state is State.COMPLETE,
            held_up=are_unread
            or any(wait.on == TierKind.AGENT for topic in topics for wait in topic.waits),
            unreported=Unreported.UNREAD if are_unread else None,
            accepted=summed(count for topic in topics for count in topic.accepted),
            dead={
                TopicKey(topic.cluster, topic.topic, topic.topic_id): dead_letters(topic)
                for topic in topics
            },
        )
    )


def dead_letters(topic: TopicReport) -> DeadLetters:
    """Counts the topic's dead letters. Lines of a copy count only at its origin."""
    is_copy = any(tier.tier == TierKind.ORIGIN for tier in topic.tiers)
    return DeadLetters(
        lines=0 if is_copy else topic.flow.dead,
        events=max((tier.dead for tier in topic.tiers), default=0),
    )


def dead_letter_words(topic: TopicReport) -> list[str]:
    """Returns for each place with dead letters of the topic a text with their number."""
    numbers = {topic_of_dead(topic.topic): dead_letters(topic).lines} | {
        table_of_dead(topic.topic, tier.destination): tier.dead for tier in topic.tiers
    }
    return [one_line(placed_words(number, place)) for place, number in numbers.items() if number]


def headline_words(headline: Headline) -> str:
    """Returns the headline without its mark."""
    return one_line(f"{headline.title}; {headline.more}" if headline.more else headline.title)


def unread_words(unread: UnreadInput) -> str:
    """Says what an agent does not read, and since when."""
    since = f" since {time_text(unread.since // 1000 * 1000)}" if unread.since >= 0 else ""
    return one_line(f"not read{since}: {unread.words}")


def failing_words(load: FailingLoad) -> str:
    """Says since when and why a table has not been loaded, and what to do."""
    start_time = time_text(load.since // 1000 * 1000)
    cure = f". What to do: {load.cure}" if load.cure else ""
    return one_line(f"not loaded into {load.destination} since {start_time}: {load.reason}{cure}")


def wait_words(wait: Wait) -> str:
    """Says which program is waited for, and why."""
    return one_line(f"waits for {_WAITED_FOR.get(wait.on, f'the {wait.on}')}: {wait.words}")


def subject(report: ReportAnswer) -> str:
    """Returns the report's time range, and the time up to which the ledger has been read."""
    to_time = min(report.to_time, report.now // 1000 * 1000)
    time_range = f"{time_text(report.from_time)} to {time_text(to_time)} UTC"
    if report.as_of <= 0:
        return f"{time_range}; the ledger is still being read"
    return f"{time_range}; the ledger was read up to {time_text(report.as_of // 1000 * 1000)}"


def topic_name(topic: TopicReport) -> str:
    """Returns the topic's name, with its id if the topic was deleted or retired, since another
    topic may have the name now."""
    suffix = f" (deleted or retired, id {topic.topic_id})"
    return topic.topic + suffix if topic.deleted else topic.topic


def flow(topic: TopicReport) -> str:
    """Returns the number of lines that were read, as the sum of what became of them."""
    lines = topic.flow
    parts = [
        f"shipped {Count(lines.shipped)}",
        f"filtered {Count(lines.filtered)}",
        f"dead {Count(lines.dead)}",
        f"lost {Count(lines.lost)}",
    ]
    lost_size = f" ({size(lines.lost_bytes)})" if lines.lost_bytes else ""
    return f"read {Count(lines.read)} = {' + '.join(parts)}{lost_size}"


def tier_name(tier: TierTotals, *, several: bool) -> str:
    """Returns the tier's name, with its root if there are several roots."""
    name = _TIERS.get(tier.tier, tier.tier)
    return one_line(f"{name} {tier.destination}".strip() if several else name)


def unclaimed_words(topic: TopicReport) -> list[str]:
    """Describes events at the brokers that no earlier tier has reported, or not yet."""
    sentences = []
    if count := topic.unclaimed - topic.unclaimed_yet:
        verb, object_form = (
            ("event at the brokers is", "it")
            if count == 1
            else ("events at the brokers are", "them")
        )
        sentences.append(
            f"{Count(count)} {verb} reported by no agent: other producers sent {object_form}, or "
            f"an agent did so just before its host lost power, and sent {object_form} again"
        )
    if count := topic.unclaimed_yet:
        verb, pronoun, object_form = (
            ("event is", "it is", "it") if count == 1 else ("events are", "they are", "them")
        )
        sentences.append(
            f"{Count(count)} {verb} not reported by an earlier tier yet: {pronoun} from other "
            f"producers, or an agent or a broker has yet to report {object_form}"
        )
    return sentences


def left_out(shown: int, total: int, what: str) -> str:
    """Returns the note that a list is abridged; empty if it is complete."""
    return f"and {total - shown:,} more {what}" if total > shown else ""


def finding_words(finding: Finding) -> str:
    """Returns the finding's sentence, its source as `penstock audit accept` takes it, and why the
    finding is not open."""
    source = f" [source {finding.source}]" if finding.source else ""
    acceptance = f" (accepted: {finding.accepted})" if finding.accepted else ""
    excuse = f" (harmless: {finding.harmless})" if finding.harmless else ""
    return one_line(f"{finding.words}{source}{acceptance}{excuse}")


class Line(NamedTuple):
    """One topic: its events by place (None where none are expected), and sums of discrepancies."""

    topic: TopicReport
    events: tuple[Count | None, ...]
    sums: tuple[Count, ...]


class ReportOverview(NamedTuple):
    """A table of topics. `sums` has the sums that are not 0 for every one of them."""

    clusters: bool  # whether the topics are of several clusters
    places: tuple[str, ...]
    sums: tuple[str, ...]
    lines: tuple[Line, ...]


def overview(topics: Sequence[TopicReport]) -> ReportOverview:
    tiers = {_place(tier): tier for topic in topics for tier in topic.tiers}
    has_roots = several_roots(list(tiers.values()))
    sums = tuple(name for name in _SUMS if any(_sum(topic, name) for topic in topics))
    lines = []
    for topic in topics:
        events_by_place = {_place(tier): events_of(tier) for tier in topic.tiers}
        events = tuple(events_by_place.get(place) for place in tiers)
        lines.append(Line(topic, events, tuple(_sum(topic, name) for name in sums)))
    return ReportOverview(
        clusters=len({topic.cluster for topic in topics}) > 1,
        places=tuple(tier_name(tier, several=has_roots) for tier in tiers.values()),
        sums=sums,
        lines=tuple(lines),
    )


def _sum(topic: TopicReport, name: str) -> Count:
    """The number of events; of `unknown`, of findings."""
    if name == "changed":
        return _count(topic.kinds, FaultKind.CHANGED, "events")
    if name == "unknown":
        return _count(topic.kinds, FaultKind.UNKNOWN, "findings")
    if name == "dead":
        return Count(dead_letters(topic).total)
    return Count(getattr(topic, name))


def _count(kinds: Kinds, kind: FaultKind, name: str) -> Count:
    """The count of a kind of fault; -1 if the number of events is unknown."""
    entry = next((candidate for candidate in kinds if candidate.kind is kind), None)
    if entry is None:
        return Count(0)
    return Count(getattr(entry, name) or -1)


def several_roots(tiers: Sequence[TierTotals]) -> bool:
    """Whether one of the tiers has several roots."""
    return len({tier.tier for tier in tiers}) < len({_place(tier) for tier in tiers})


def _place(tier: TierTotals) -> tuple[str, str]:
    return tier.tier, tier.destination

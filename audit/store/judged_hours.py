"""Splits a topic's verdict into hours, for the store and for alerts, and sums it for Prometheus.
Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import replace

from audit.configuration.config import CommandsConfig
from audit.cures.fault_cures import cure_for
from audit.reconciling import words
from audit.reconciling.dead_letters import DeadLetters
from audit.reconciling.findings import (
    FaultKind,
    Finding,
    KindCount,
    Kinds,
    State,
    counted,
    summed,
    worst,
)
from audit.reconciling.picture import Tier, TierKind, TopicKey
from audit.reconciling.topic_verdict import (
    TopicVerdict,
    WindowVerdict,
    settled_state,
    totals,
)
from audit.store.rows import JudgedHour
from audit.store.topics.copies import OF_ORIGIN

HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR

_LONGEST_WAITS: Final = 300
_COMMANDS: Final = CommandsConfig()


class HourVerdict(msgspec.Struct, frozen=True):
    """The verdict about one hour. `faults` describes, by state, the sum of all findings and then
    the worst; `worst` is the worst finding itself, with its command. A copy's verdict excludes
    faults from before it was copied, which its origin shows."""

    judged: JudgedHour
    faults: Mapping[State, str] = {}
    worst: Mapping[State, Finding] = {}
    hosts: Mapping[State, tuple[str, ...]] = {}  # affected ones
    events: Mapping[Tier, int] = {}
    pending_since: int = -1  # the end of its first pending window
    waiting_since: int = -1  # the same or, if its events were reported later, that time
    waits_on: frozenset[str] = frozenset()  # what that window waits for, as in `Wait.on`
    unreported_since: int = -1  # as `pending_since`, of windows that wait for others than a loader
    waits_for: frozenset[str] = frozenset()  # the hosts of agents that pending windows wait for

    @property
    def is_open(self) -> bool:
        """Whether the verdict may change without a new report about this hour."""
        return self.judged.state != State.COMPLETE

    def lines(self, state: State) -> int:
        """Returns the number of events with faults of this state; -1 if unknown."""
        counts = [kind for kind in self.judged.kinds if kind.kind.state is state]
        return sum(count.events for count in counts) or -1

    def lost_bytes(self, state: State) -> int:
        """Returns the number of bytes that were lost with an unknown number of lines."""
        return sum(count.bytes for count in self.judged.kinds if count.kind.state is state)


def hour_of(time: int) -> int:
    return time // HOUR * HOUR


def by_hour(
    verdict: TopicVerdict,
    hours: Iterable[int],
    commands: CommandsConfig = _COMMANDS,
    load_advice: Mapping[str, str] = MappingProxyType({}),
) -> list[HourVerdict]:
    """Splits a verdict into these hours, which the verdict covers."""

    def cured(finding: Finding) -> Finding:
        return replace(finding, **cure_for(finding, verdict.key, commands, load_advice).fields)

    windows: dict[int, list[WindowVerdict]] = defaultdict(list)
    for window in verdict.windows:
        windows[hour_of(window.start)].append(window)
    findings: dict[int, list[Finding]] = defaultdict(list)
    first_findings: dict[int, list[Finding]] = defaultdict(
        list
    )  # a finding counts in its first hour
    for finding in verdict.findings:
        if finding.from_time >= 0 and not finding.harmless:
            first_findings[hour_of(finding.from_time)].append(finding)
            for hour in _hours_of(finding, windows, verdict):
                findings[hour].append(finding)
    return [
        _hour(
            *(verdict, hour, windows[hour], findings[hour]),
            begun=first_findings[hour],
            cured=cured,
        )
        for hour in hours
    ]


def open_findings(verdict: TopicVerdict) -> Iterator[Finding]:
    """Yields open findings that have a time."""
    return (finding for finding in verdict.findings if finding.is_open and finding.from_time >= 0)


def _hours_of(
    finding: Finding, windows: Mapping[int, Sequence[WindowVerdict]], verdict: TopicVerdict
) -> Sequence[int]:
    """Returns the hours with a faulty window that the finding may be about. If there is none, as
    with an extra file, or a hole while nothing happened, the hour in which it begins."""
    end = max(finding.to_time, finding.from_time + 1)
    hours = range(hour_of(finding.from_time), end, HOUR)
    if finding.kind is FaultKind.UNKNOWN:  # with events or without
        begin = max(finding.from_time, verdict.from_time)
        return range(hour_of(begin), min(end, verdict.to_time), HOUR)
    faulty_windows = [
        hour
        for hour in hours
        if any(
            hour_window.state.is_fault
            and hour_window.start < end
            and hour_window.start + hour_window.length > finding.from_time
            for hour_window in windows.get(hour, ())
        )
    ]
    return faulty_windows if faulty_windows and len(hours) > 1 else hours[:1]


def _hour(
    verdict: TopicVerdict,
    hour: int,
    windows: Sequence[WindowVerdict],
    all_findings: Sequence[Finding],
    *,
    begun: Sequence[Finding],
    cured: Callable[[Finding], Finding],
) -> HourVerdict:
    findings = [finding for finding in all_findings if finding.is_open]
    sums = totals(begun)
    pending_windows = [window for window in windows if window.state is State.PENDING]
    awaited_tiers = {tier for window in pending_windows for tier in window.waits}
    states = [window.state for window in windows] + [finding.kind.state for finding in findings]
    judged_hour = JudgedHour(
        key=verdict.key,
        hour=hour,
        state=worst(states).value,
        events=sum(max((sums.events for sums in window.sums), default=0) for window in windows),
        missing=sums.missing + sums.lost,
        excess=sums.duplicated,
        pending_windows=len(pending_windows),
        findings=len(findings),
        waits=_joined(
            list(dict.fromkeys(wait.words for wait in verdict.waits if wait.on in awaited_tiers))
        ),
        accepted=_kinds(begun, all_findings, accepted=True),
        kinds=_kinds(begun, all_findings, accepted=False),
        dead=DeadLetters.of(windows, is_copy=verdict.origin is not None),
    )
    first_window = min(pending_windows, key=lambda window: window.start, default=None)
    unreported_windows = [
        window for window in pending_windows if set(window.waits) != {TierKind.HDFS.value}
    ]
    events = {
        tier: sum(window.sums[number].events for window in windows)
        for number, tier in enumerate(verdict.tiers)
    }
    shown_findings = [
        finding for finding in findings if verdict.origin is None or finding.tier not in OF_ORIGIN
    ]
    faulty_windows = () if len(shown_findings) < len(findings) else windows
    by_state: dict[State, list[Finding]] = defaultdict(list)
    for finding in shown_findings:
        by_state[finding.kind.state].append(finding)
    worst_by_state = {state: cured(state_findings[0]) for state, state_findings in by_state.items()}
    hosts = {
        state: tuple(sorted({finding.host for finding in state_findings if finding.host}))
        for state, state_findings in by_state.items()
    }
    return HourVerdict(
        judged_hour,
        _faults(faulty_windows, by_state),
        worst_by_state,
        hosts,
        events,
        _first_end(pending_windows),
        _first_end(pending_windows),
        frozenset(first_window.waits if first_window else ()),
        _first_end(unreported_windows),
        frozenset(wait.host for wait in verdict.waits if wait.on in awaited_tiers and wait.agent),
    )


def _kinds(begun: Sequence[Finding], findings: Sequence[Finding], *, accepted: bool) -> Kinds:
    """Counts the accepted or the open findings that begin in an hour; others of it count 0."""
    return summed(
        [
            *counted(finding for finding in begun if bool(finding.accepted) == accepted),
            *(
                KindCount(kind=finding.kind)
                for finding in findings
                if bool(finding.accepted) == accepted
            ),
        ]
    )


def _first_end(windows: Iterable[WindowVerdict]) -> int:
    return min((window.start + window.length for window in windows), default=-1)


def _faults(
    windows: Sequence[WindowVerdict], findings: Mapping[State, Sequence[Finding]]
) -> dict[State, str]:
    """Returns the words by state."""
    texts = {state: _first_of(state_findings) for state, state_findings in findings.items()}
    for window in windows:
        if window.state is State.UNKNOWN:
            texts.setdefault(window.state, "no agent was watching")
        elif window.state.is_fault:
            texts.setdefault(window.state, "the tiers do not agree")
    return texts


def _first_of(findings: Sequence[Finding]) -> str:
    """Returns the words of the first finding; of several, after those of all in sum."""
    if len(findings) == 1:
        return findings[0].words
    number = words.count(len(findings), "finding")
    return f"{number}: in all, {words.of_kinds(counted(findings))}; the first: {findings[0].words}"


def _joined(waits: Sequence[str]) -> str:
    """Joins as many waits as there is room for, none cut in the middle."""
    text = ""
    for number, wait in enumerate(waits):
        longer_text = f"{text}; {wait}" if text else wait
        if len(longer_text) > _LONGEST_WAITS:
            rest = f"{len(waits) - number:,} more"
            return f"{text}; and {rest}" if text else f"{wait[: _LONGEST_WAITS - 1]}…"
        text = longer_text
    return text


class TopicFigures(msgspec.Struct):
    """The figures of one topic. Faults count for as long as they are stored, events for a day."""

    key: TopicKey
    events: dict[Tier, int] = {}
    missing: int = 0
    excess: int = 0
    findings: int = 0
    pending_windows: int = 0
    pending_since: int = -1
    waiting_since: int = -1
    unreported_since: int = -1
    severity: int = 0
    kinds: Kinds = ()
    is_deleted: bool = False  # so nothing is pending

    def add(self, hour: HourVerdict, since: int) -> None:
        judged_hour = hour.judged
        if judged_hour.hour >= since:
            for tier, events in hour.events.items():
                self.events[tier] = self.events.get(tier, 0) + events
        self.missing += judged_hour.missing
        self.excess += judged_hour.excess
        self.findings += judged_hour.findings
        if judged_hour.kinds:
            self.kinds = summed([*self.kinds, *judged_hour.kinds])
        state = State(judged_hour.state)
        if self.is_deleted:
            self.severity = max(self.severity, settled_state(state).severity)
            return
        self.pending_windows += judged_hour.pending_windows
        self.severity = max(self.severity, state.severity)
        self.pending_since = _earlier(self.pending_since, hour.pending_since)
        self.waiting_since = _earlier(self.waiting_since, hour.waiting_since)
        self.unreported_since = _earlier(self.unreported_since, hour.unreported_since)


def _earlier(*times: int) -> int:
    """Returns the earliest time; -1 stands for none."""
    return min((time for time in times if time >= 0), default=-1)


def figures_of(
    hours: Iterable[HourVerdict], *, since: int, is_deleted: Callable[[TopicKey], bool]
) -> Sequence[TopicFigures]:
    """Returns the figures of all topics, ordered by name."""
    figures: dict[TopicKey, TopicFigures] = {}
    for hour in hours:
        key = hour.judged.key
        if key not in figures:
            figures[key] = TopicFigures(key, is_deleted=is_deleted(key))
        figures[key].add(hour, since)
    return [figures[key] for key in sorted(figures)]

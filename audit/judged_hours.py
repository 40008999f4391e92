"""A topic's verdict, hour by hour: what is kept of it, and what may be worth an alert. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from audit.picture import Tier
from audit.reconciling.totals import totals
from audit.store.rows import JudgedHour
from audit.verdicts import Finding, Kind, State, TopicVerdict, Totals, WindowVerdict, worst

HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR

_LONGEST_WAITS: Final = 300
_FAULTS: Final = frozenset({State.UNKNOWN, State.MISSING, State.DUPLICATED, State.CHANGED})


@dataclass(frozen=True, slots=True)
class HourVerdict:
    """One hour. `faults` has, by what is wrong, what is said of the first."""

    judged: JudgedHour
    faults: Mapping[State, str] = field(default_factory=dict)
    events: Mapping[Tier, int] = field(default_factory=dict)  # by tier
    pending_since: int = -1  # the end of its first window that still waits

    @property
    def is_open(self) -> bool:
        """Whether another verdict may come without anything that is said of this very hour."""
        return self.judged.state != State.COMPLETE


def hour_of(time: int) -> int:
    return time // HOUR * HOUR


def by_hour(verdict: TopicVerdict, hours: Iterable[int]) -> list[HourVerdict]:
    """What it says of these hours, all of which lie in it."""
    windows: dict[int, list[WindowVerdict]] = defaultdict(list)
    for window in verdict.windows:
        windows[hour_of(window.start)].append(window)
    findings: dict[int, list[Finding]] = defaultdict(list)
    begun: dict[int, list[Finding]] = defaultdict(list)  # each counts once: where it begins
    for finding in open_findings(verdict):
        begun[hour_of(finding.from_time)].append(finding)
        for hour in _hours_of(finding, windows, verdict):
            findings[hour].append(finding)
    return [
        _hour(verdict, each, windows[each], findings[each], totals(begun[each])) for each in hours
    ]


def open_findings(verdict: TopicVerdict) -> Iterator[Finding]:
    """Those that nobody has accepted, and that have a time."""
    return (each for each in verdict.findings if not each.accepted and each.from_time >= 0)


def _hours_of(
    finding: Finding, windows: Mapping[int, Sequence[WindowVerdict]], verdict: TopicVerdict
) -> Sequence[int]:
    """Those with a faulty window that it may be about. Where there is none, such as with a file
    that should not be there, or a hole while nothing happened, the one that it begins in."""
    end = max(finding.to_time, finding.from_time + 1)
    hours = range(hour_of(finding.from_time), end, HOUR)
    if finding.kind is Kind.UNKNOWN:  # with events or without
        first = max(finding.from_time, verdict.from_time)
        return range(hour_of(first), min(end, verdict.to_time), HOUR)
    faulty = [
        hour
        for hour in hours
        if any(
            each.state in _FAULTS
            and each.start < end
            and each.start + each.length > finding.from_time
            for each in windows.get(hour, ())
        )
    ]
    return faulty if faulty and len(hours) > 1 else hours[:1]


def _hour(
    verdict: TopicVerdict,
    hour: int,
    windows: Sequence[WindowVerdict],
    findings: Sequence[Finding],
    counted: Totals,
) -> HourVerdict:
    pending = [each for each in windows if each.state is State.PENDING]
    waited = {on for each in pending for on in each.waits}
    states = [each.state for each in windows] + [each.kind.state for each in findings]
    judged = JudgedHour(
        key=verdict.key,
        hour=hour,
        state=worst(states).value,
        events=sum(max((sums.events for sums in each.sums), default=0) for each in windows),
        missing=counted.missing + counted.lost,
        excess=counted.duplicated,
        pending_windows=len(pending),
        findings=len(findings),
        waits=_short("; ".join(dict.fromkeys(e.words for e in verdict.waits if e.on in waited))),
    )
    since = min((each.start + each.length for each in pending), default=-1)
    events = {
        tier: sum(each.sums[number].events for each in windows)
        for number, tier in enumerate(verdict.tiers)
    }
    return HourVerdict(judged, _faults(windows, findings), events, since)


def _faults(windows: Sequence[WindowVerdict], findings: Sequence[Finding]) -> dict[State, str]:
    """By what is wrong, the first of what is said of it."""
    said: dict[State, str] = {}
    for finding in findings:
        said.setdefault(finding.kind.state, finding.words)
    for window in windows:
        if window.state in _FAULTS:
            said.setdefault(window.state, "the tiers do not agree")
    return said


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_WAITS else f"{text[: _LONGEST_WAITS - 1]}…"

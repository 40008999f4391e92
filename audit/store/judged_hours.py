"""A topic's verdict, hour by hour: what is kept of it, what may be worth an alert, and what hours
add up to for Prometheus. Pure.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from audit.api.verdicts import TopicVerdict, Totals, WindowVerdict, settled_state, totals
from audit.configuration.config import CommandsConfig
from audit.cures import cure_for
from audit.findings import FaultKind, Finding, KindCount, Kinds, State, summed, worst
from audit.picture import Tier, TierKind, TopicKey
from audit.store.rows import JudgedHour
from audit.store.topics.copies import OF_ORIGIN

HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR

_LONGEST_WAITS: Final = 300
_COMMANDS: Final = CommandsConfig()


class HourVerdict(msgspec.Struct, frozen=True):
    """One hour. `faults` has, by what is wrong, what is said of the worst finding and how many more
    there are, and `worst` that finding, with its command; of a copy without what was wrong before
    it was copied, as that is said of its origin."""

    judged: JudgedHour
    faults: Mapping[State, str] = {}
    worst: Mapping[State, Finding] = {}
    hosts: Mapping[State, tuple[str, ...]] = {}  # by what is wrong, where
    events: Mapping[Tier, int] = {}  # by tier
    pending_since: int = -1  # the end of its first window that still waits
    waits_on: frozenset[str] = frozenset()  # what that window waits for, as in `Wait.on`
    unreported_since: int = -1  # as `pending_since`, of windows that wait for others than a loader

    @property
    def is_open(self) -> bool:
        """Whether another verdict may come without anything that is said of this very hour."""
        return self.judged.state != State.COMPLETE

    def lines(self, state: State) -> int:
        """How many events have that fault; -1 where that is not known."""
        counts = [each for each in self.judged.kinds if each.kind.state is state]
        return sum(each.events for each in counts) or -1


def hour_of(time: int) -> int:
    return time // HOUR * HOUR


def by_hour(
    verdict: TopicVerdict, hours: Iterable[int], commands: CommandsConfig = _COMMANDS
) -> list[HourVerdict]:
    """What it says of these hours, all of which lie in it."""
    windows: dict[int, list[WindowVerdict]] = defaultdict(list)
    for window in verdict.windows:
        windows[hour_of(window.start)].append(window)
    findings: dict[int, list[Finding]] = defaultdict(list)
    begun: dict[int, list[Finding]] = defaultdict(list)  # each counts once: where it begins
    for finding in open_findings(verdict):
        begun[hour_of(finding.from_time)].append(finding)
    for finding in verdict.findings:
        if finding.from_time >= 0 and (finding.is_accepted_unknown or not finding.accepted):
            for hour in _hours_of(finding, windows, verdict):
                findings[hour].append(finding)
    return [
        _hour(
            *(verdict, each, windows[each], findings[each]),
            counted=totals(begun[each]),
            commands=commands,
        )
        for each in hours
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
    if finding.kind is FaultKind.UNKNOWN:  # with events or without
        first = max(finding.from_time, verdict.from_time)
        return range(hour_of(first), min(end, verdict.to_time), HOUR)
    faulty = [
        hour
        for hour in hours
        if any(
            each.state.is_fault
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
    about: Sequence[Finding],
    *,
    counted: Totals,
    commands: CommandsConfig,
) -> HourVerdict:
    findings = [each for each in about if not each.accepted]
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
        waits=_joined(list(dict.fromkeys(e.words for e in verdict.waits if e.on in waited))),
        partly_unseen=any(each.is_accepted_unknown for each in about),
        kinds=summed([*counted.kinds, *(KindCount(kind=each.kind) for each in findings)]),
    )
    first = min(pending, key=lambda window: window.start, default=None)
    unreported = [each for each in pending if set(each.waits) != {TierKind.HDFS.value}]
    events = {
        tier: sum(each.sums[number].events for each in windows)
        for number, tier in enumerate(verdict.tiers)
    }
    told = [each for each in findings if verdict.origin is None or each.tier not in OF_ORIGIN]
    faulty = () if len(told) < len(findings) else windows
    by_state: dict[State, list[Finding]] = defaultdict(list)
    for each in told:
        by_state[each.kind.state].append(each)
    worst_of = {
        state: replace(some[0], **cure_for(some[0], verdict.key, commands).fields)
        for state, some in by_state.items()
    }
    hosts = {
        state: tuple(sorted({each.host for each in some if each.host}))
        for state, some in by_state.items()
    }
    return HourVerdict(
        judged,
        _faults(faulty, by_state),
        worst_of,
        hosts,
        events,
        _first_end(pending),
        frozenset(first.waits if first else ()),
        _first_end(unreported),
    )


def _first_end(windows: Iterable[WindowVerdict]) -> int:
    return min((each.start + each.length for each in windows), default=-1)


def _faults(
    windows: Sequence[WindowVerdict], findings: Mapping[State, Sequence[Finding]]
) -> dict[State, str]:
    """By what is wrong, the first of what is said of it, and how many findings more there are."""
    said = {state: _first_of(some) for state, some in findings.items()}
    for window in windows:
        if window.state is State.UNKNOWN:
            said.setdefault(window.state, "no agent was watching")
        elif window.state.is_fault:
            said.setdefault(window.state, "the tiers do not agree")
    return said


def _first_of(findings: Sequence[Finding]) -> str:
    more = len(findings) - 1
    also = (
        "" if not more else "; and 1 more finding" if more == 1 else f"; and {more:,} more findings"
    )
    return f"{findings[0].words}{also}"


def _joined(waits: Sequence[str]) -> str:
    """Whole ones, as many as there is room for: nobody can use half of a time."""
    said = ""
    for number, each in enumerate(waits):
        longer = f"{said}; {each}" if said else each
        if len(longer) > _LONGEST_WAITS:
            left = f"{len(waits) - number:,} more"
            return f"{said}; and {left}" if said else f"{each[: _LONGEST_WAITS - 1]}…"
        said = longer
    return said


class TopicFigures(msgspec.Struct):
    """One topic. What is wrong counts as long as it is kept, events for a day."""

    key: TopicKey
    events: dict[Tier, int] = {}
    missing: int = 0
    excess: int = 0
    findings: int = 0
    pending_windows: int = 0
    pending_since: int = -1
    unreported_since: int = -1
    severity: int = 0
    kinds: Kinds = ()
    is_deleted: bool = False  # nothing is waited for any more

    def add(self, hour: HourVerdict, since: int) -> None:
        said = hour.judged
        if said.hour >= since:
            for tier, events in hour.events.items():
                self.events[tier] = self.events.get(tier, 0) + events
        self.missing += said.missing
        self.excess += said.excess
        self.findings += said.findings
        if said.kinds:
            self.kinds = summed([*self.kinds, *said.kinds])
        state = State(said.state)
        if self.is_deleted:
            self.severity = max(self.severity, settled_state(state).severity)
            return
        self.pending_windows += said.pending_windows
        self.severity = max(self.severity, state.severity)
        self.pending_since = _earlier(self.pending_since, hour.pending_since)
        self.unreported_since = _earlier(self.unreported_since, hour.unreported_since)


def _earlier(one: int, other: int) -> int:
    """-1 is none."""
    return min((each for each in (one, other) if each >= 0), default=-1)


def figures_of(
    hours: Iterable[HourVerdict], *, since: int, is_deleted: Callable[[TopicKey], bool]
) -> Sequence[TopicFigures]:
    """By topic, in the order of their names."""
    found: dict[TopicKey, TopicFigures] = {}
    for hour in hours:
        key = hour.judged.key
        if key not in found:
            found[key] = TopicFigures(key, is_deleted=is_deleted(key))
        found[key].add(hour, since)
    return [found[key] for key in sorted(found)]

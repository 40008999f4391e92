"""Compares the sums of two adjacent tiers window by window: how many events are missing, pending,
in excess or unclaimed, and which faults follow.

Offsets have been compared before. If both tiers account for each of their offsets exactly, then a
difference that no lacking offset explains is neither missing nor duplicated: the events are in
another window at the later tier, for example because their producer gave them another time than
their records. If sums cannot show a lack, offsets alone tell what is pending.

Named missing events are weighed against the lack of the sums. An event is in one window, but its
batch may reach into several. So faults are laid on the windows that they may be in, those that end
first before others, until the lack is filled; the rest has no names.
"""

from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush

import msgspec
from msgspec.structs import replace

from audit.reconciling import words
from audit.reconciling.faults import Fault, cut
from audit.reconciling.findings import FaultKind, Finding
from audit.reconciling.missing import NamedMissing, Passing
from audit.reconciling.picture import ExpectedAgent, Tier, TierKind, TopicPicture, Window
from audit.reconciling.stated_faults import is_young, landed_twice
from audit.reconciling.windows import Axis, Pair, Step, compared, is_counted, sums_at

_BEGINNING = 3_600_000  # how late events may have been when a tier began to report
LEDGER = "ledger"  # what is waited for while a statement may be in transit
_FOR_EVER = 1 << 62


class _Unsettled(msgspec.Struct, frozen=True):
    """Windows whose missing offsets may still be explained. `anywhere`: the time of some of these
    events is unknown."""

    windows: frozenset[int]
    anywhere: bool


class Tallied(msgspec.Struct):
    """The comparison of one pair of tiers. `steps` has the windows whose sums differ; `doubled` are
    events that the later tier has twice."""

    passing: Passing
    doubled: list[Fault]
    steps: dict[int, Step] = {}
    faults: list[Fault] = []
    waits: dict[int, set[str]] = {}


class Tally:
    """Compares the sums of a picture's pairs of tiers."""

    def __init__(self, picture: TopicPicture, axis: Axis) -> None:
        self._picture = picture
        self._windows = axis.windows
        self._axis = axis
        self._hole_times: dict[tuple[TierKind, bool], list[int]] = {}
        for hole in picture.holes:
            key = hole.tier, is_young(hole, picture)
            self._hole_times.setdefault(key, []).append(hole.to_time)
        self._inexact: dict[Tier, set[int]] = {}
        for span in picture.inexact:
            windows = axis.touched(span.from_time, span.to_time)
            self._inexact.setdefault(span.tier, set()).update(windows)
        self.agents_awaited: set[int] = set()
        if any(tier.kind is TierKind.AGENT for tier in picture.tiers):
            progress = _until(picture.agents)
            least_until = min((until for until, _ in progress), default=_FOR_EVER)
            self.agents_awaited = {
                number
                for number, window in enumerate(axis.windows)
                if window.start + window.length > least_until
                and _waits_for_agents(window, progress)
            }

    def of(
        self,
        passing: Passing,
        named: NamedMissing,
        batches: Sequence[Fault],
        next_tiers: Sequence[NamedMissing] = (),
    ) -> Tallied:
        """Compares one pair of tiers. `batches`: the faults of all damaged batches. `next_tiers`:
        the named events that later tiers lack; those that this tier already lacks are moved
        here."""
        batches = [
            batch
            for batch in batches
            if passing.lacks(batch) or self._is_rebuilt(passing.pair.later, batch.finding)
        ]
        doubled_faults = cut(
            landed_twice(self._picture, passing.pair.later), self._picture.accepted
        )
        tally = Tallied(passing, doubled_faults)
        lack: dict[int, int] = {}
        excess_events: dict[int, int] = {}
        changed_windows: list[int] = []
        uncounted_windows: list[int] = []
        for number, window in enumerate(self._windows):
            if window.uncounted and not is_counted(window, passing.pair):
                uncounted_windows.append(number)
                continue
            surplus, is_changed = compared(window, passing.pair)
            if surplus > 0:
                lack[number] = surplus
            elif surplus < 0:
                excess_events[number] = -surplus
            elif is_changed:
                changed_windows.append(number)
        whole_lack = dict(lack)
        tally.faults = self._named(passing, named, batches, lack)
        tally.faults += self._lost_before(passing, next_tiers, lack)
        unsettled_windows = self._unsettled(passing, named)
        self._lacking(passing, unsettled_windows, whole_lack, lack, tally)
        unnamed_events = dict(excess_events)
        lay(doubled_faults, unnamed_events, self._axis, ())
        for number, events in excess_events.items():
            self._too_many(passing, number, events, unnamed_events[number], tally)
        for number in (*uncounted_windows, *excess_events, *changed_windows):
            if awaited_tiers := self._unseen(passing, unsettled_windows, number):
                tally.waits.setdefault(number, set()).update(awaited_tiers)
        self._changed(passing, changed_windows, tally)
        return tally

    def _named(
        self, passing: Passing, named: NamedMissing, damaged: Sequence[Fault], lack: dict[int, int]
    ) -> list[Fault]:
        awaited_windows = {number for number in lack if self._awaits(passing, number)}
        lay(damaged, lack, self._axis, awaited_windows)
        certain_faults = self._settled(named.certain, passing)
        sure_faults: list[Fault] = []
        dead_letters: list[Fault] = []
        for fault in self._settled(named.doubtful, passing):
            (dead_letters if self._may_be_dead(fault, passing.pair) else sure_faults).append(fault)
        faults = [*certain_faults, *sure_faults]
        lay(faults, lack, self._axis, awaited_windows)
        unexplained_ids = {
            id(fault) for fault in lay(dead_letters, lack, self._axis, awaited_windows)
        }
        faults += [fault for fault in dead_letters if id(fault) not in unexplained_ids]
        attach(faults, self._axis)
        return faults

    def _lost_before(
        self, passing: Passing, next_tiers: Sequence[NamedMissing], lack: dict[int, int]
    ) -> list[Fault]:
        """Returns named events that offsets do not prove to have reached this tier: a leader had
        them that was succeeded before it reported them, and other events are at their offsets now.
        If the sums lack as many here, they are missing here."""
        kind, destination = passing.pair.later
        open_windows = {
            number: events
            for number, events in lack.items()
            if events and not self._is_exact(passing, number) and not self._awaits(passing, number)
        }
        if not open_windows or not next_tiers or self._holes(kind, young=False):
            return []
        candidates = [
            fault
            for fault in self._open_to_nothing(next_tiers[0].doubtful, passing)
            if fault.pair is not None and not self._may_be_dead(fault, fault.pair)
        ]
        lay(candidates, open_windows, self._axis, ())
        lack.update(open_windows)
        faults = [fault for fault in candidates if fault.windows]
        names = {_name(fault.finding) for fault in faults}
        for later_missing in next_tiers:
            later_missing.doubtful[:] = [
                fault for fault in later_missing.doubtful if _name(fault.finding) not in names
            ]
        for fault in faults:
            fault.pair = passing.pair
            fault.finding = replace(fault.finding, tier=kind.value, destination=destination)
        faults = cut(faults, self._picture.accepted)
        attach(faults, self._axis)
        return faults

    def _unsettled(self, passing: Passing, named: NamedMissing) -> _Unsettled:
        settled_ids = {id(fault) for fault in self._open_to_nothing(named.certain, passing)}
        unsettled_faults = [fault for fault in named.certain if id(fault) not in settled_ids]
        return _Unsettled(
            frozenset(
                number
                for fault in unsettled_faults
                if fault.has_time
                for number in self._axis.touched(fault.finding.from_time, fault.finding.to_time)
            ),
            anywhere=not all(fault.has_time for fault in unsettled_faults),
        )

    def _settled(self, faults: Iterable[Fault], passing: Passing) -> list[Fault]:
        """Returns the faults that no later statement can explain."""
        kind = passing.pair.later.kind
        last_hole = max(self._holes(kind, young=False), default=-1)
        settled_faults = self._open_to_nothing(faults, passing)
        for fault in settled_faults:
            if fault.finding.from_time <= last_hole:
                fault.doubt(FaultKind.UNPROVEN, self._hole_reason(kind))
        return cut(settled_faults, self._picture.accepted)

    def _open_to_nothing(self, faults: Iterable[Fault], passing: Passing) -> list[Fault]:
        last_young_hole = max(self._holes(passing.pair.later.kind, young=True), default=-1)
        return [
            fault
            for fault in faults
            if not self._is_fresh(fault.finding.to_time)
            and fault.finding.from_time > last_young_hole
        ]

    def _may_be_dead(self, fault: Fault, pair: Pair) -> bool:
        """Whether these events may have become dead letters at the later tier."""
        windows = self._axis.touched(fault.finding.from_time, fault.finding.to_time)
        return any(sums_at(self._windows[number], pair.later).dead for number in windows)

    def _lacking(
        self,
        passing: Passing,
        unsettled: _Unsettled,
        lacks: dict[int, int],
        unnamed: dict[int, int],
        tallied: Tallied,
    ) -> None:
        pair = passing.pair
        last_hole = max(self._holes(pair.later.kind, young=False), default=-1)
        for number, events in lacks.items():
            window = self._windows[number]
            awaited_tiers = self._awaits(passing, number) if unnamed[number] else set()
            pending_events = unnamed[number] if awaited_tiers else 0
            may_be_here = unsettled.anywhere or number in unsettled.windows
            is_exact = self._is_exact(passing, number) and not may_be_here
            moved_events = unnamed[number] if is_exact and not awaited_tiers else 0
            tallied.steps[number] = Step(
                pair,
                missing=events - pending_events - moved_events,
                pending=pending_events,
                elsewhere=-moved_events,
            )
            if awaited_tiers:
                tallied.waits[number] = awaited_tiers
            elif unnamed[number] and not moved_events:
                is_unproven = window.start <= last_hole
                kind = FaultKind.UNPROVEN if is_unproven else FaultKind.UNNAMED
                reason = self._hole_reason(pair.later.kind) if is_unproven else ""
                tallied.faults.append(self._of_window(number, pair, kind, unnamed[number], reason))

    def _awaits(self, passing: Passing, number: int) -> set[str]:
        """Returns what may still report something of a window that lacks events."""
        window = self._windows[number]
        kind = passing.pair.later.kind
        awaited_tiers = {kind.value} if number in passing.pending else set()
        last_young_hole = max(self._holes(kind, young=True), default=-1)
        if self._is_fresh(window.start + window.length) or window.start <= last_young_hole:
            awaited_tiers.add(LEDGER)
        return awaited_tiers

    def _unseen(self, passing: Passing, unsettled: _Unsettled, number: int) -> set[str]:
        """Returns the same of a window whose sums show no lack: other events can hide it."""
        awaited_tiers = {passing.pair.later.kind.value} if number in passing.pending else set()
        if number in unsettled.windows:
            awaited_tiers.add(LEDGER)
        return awaited_tiers

    def _is_exact(self, passing: Passing, number: int) -> bool:
        """Whether offsets prove what became of all events that may be in this window."""
        return not any(number in self._inexact.get(tier, ()) for tier in passing.pair)

    def _too_many(
        self, passing: Passing, number: int, events: int, unnamed: int, tallied: Tallied
    ) -> None:
        """Judges a surplus of events. `unnamed`: how many of them have no names."""
        pair = passing.pair
        window = self._windows[number]
        unclaimed_events = min(events, self._unspoken(passing, number))
        if pair.later.kind in {TierKind.ORIGIN, TierKind.BROKER} or self._is_fresh(
            window.start + window.length
        ):
            unclaimed_events = events
        if pair.earlier.kind is TierKind.AGENT and number in self.agents_awaited:
            unclaimed_events = events
        excess_events = events - unclaimed_events
        unnamed_excess = min(excess_events, unnamed)
        moved_events = unnamed_excess if self._is_exact(passing, number) else 0
        excess_events -= moved_events
        tallied.steps[number] = Step(
            pair,
            excess=excess_events,
            unclaimed=unclaimed_events,
            unclaimed_yet=unclaimed_events if self._may_be_claimed(passing, number) else 0,
            elsewhere=moved_events,
        )
        if unnamed_excess > moved_events:
            tallied.faults.append(
                self._of_window(number, pair, FaultKind.DUPLICATED, unnamed_excess - moved_events)
            )
        elif passing.ahead and pair.earlier.kind in {TierKind.ORIGIN, TierKind.BROKER}:
            tallied.waits[number] = {pair.earlier.kind.value}

    def _may_be_claimed(self, passing: Passing, number: int) -> bool:
        """Whether the earlier tier may still claim these events: agents and brokers report what
        they have shipped or stored some time later; after a kill, once they run again."""
        window = self._windows[number]
        kind = passing.pair.earlier.kind
        return (
            passing.ahead
            or bool(self._holes(kind, young=True))
            or (kind is TierKind.AGENT and number in self.agents_awaited)
            or self._is_fresh(window.start + window.length)
        )

    def _unspoken(self, passing: Passing, number: int) -> int:
        """Returns how many events there can be that the earlier tier has not claimed. Those from
        before its first report are in windows before its first ones, or close to them."""
        if not passing.before:
            return passing.unspoken
        kind = passing.pair.earlier.kind
        first_start = next(
            (
                window.start
                for window in self._windows
                if sums_at(window, passing.pair.earlier).events
            ),
            None,
        )
        is_early = first_start is None or self._windows[number].start < first_start + _BEGINNING
        if is_early or self._holes(kind, young=True) or self._holes(kind, young=False):
            return passing.unspoken + passing.before
        return passing.unspoken

    def _changed(self, passing: Passing, changed: Collection[int], tallied: Tallied) -> None:
        """Judges windows with as many events, but another sum of CRCs. An agent that has forgotten
        that it shipped events reports them at another time, so counts can be equal by chance."""
        if not changed:
            return
        times = [(fault.finding.from_time, fault.finding.to_time) for fault in tallied.faults]
        times += [
            (seqs.from_time, seqs.to_time)
            for source in self._picture.sources
            for seqs in source.twice
        ]
        explained_windows = {number for time in times for number in self._axis.touched(*time)}
        for number in changed:
            window = self._windows[number]
            if number in tallied.waits:
                continue
            if self._is_fresh(window.start + window.length):
                tallied.waits[number] = {LEDGER}
            elif number not in explained_windows and not self._statements_missing(passing, number):
                events = sums_at(window, passing.pair.later).events
                tallied.faults.append(
                    self._of_window(number, passing.pair, FaultKind.CHANGED, events)
                )

    def _statements_missing(self, passing: Passing, number: int) -> bool:
        """Whether statements are missing, so that counts may be equal by chance."""
        is_from_agents = passing.pair.earlier.kind is TierKind.AGENT
        return (
            (is_from_agents and number in self.agents_awaited)
            or (not is_from_agents and (passing.ahead or passing.uncounted))
            or any(
                self._windows[number].start <= hole
                for tier in passing.pair
                for young in (False, True)
                for hole in self._holes(tier.kind, young=young)
            )
        )

    def _of_window(
        self, number: int, pair: Pair, kind: FaultKind, events: int, reason: str = ""
    ) -> Fault:
        window = self._windows[number]
        finding = Finding(
            kind=kind,
            tier=pair.later.kind.value,
            destination=pair.later.destination,
            events=events,
            from_time=window.start,
            to_time=window.start + window.length,
        )
        return Fault(finding, pair=pair, count=events, reason=reason, windows=[number])

    def _is_rebuilt(self, tier: Tier, finding: Finding) -> bool:
        """Whether a rebuild passed over damage, although an earlier load claimed its offsets."""
        times = finding.from_time, max(finding.to_time, finding.from_time + 1)
        return self._picture.is_rebuilt(*tier, *times)

    def _is_fresh(self, time: int) -> bool:
        return time >= 0 and time + self._picture.grace_millis > self._picture.now

    def _holes(self, kind: TierKind, *, young: bool) -> Sequence[int]:
        return self._hole_times.get((kind, young), ())

    def _hole_reason(self, kind: TierKind) -> str:
        return next(
            words.hole_reason(hole)
            for hole in self._picture.holes
            if hole.tier is kind and not is_young(hole, self._picture)
        )


def _name(finding: Finding) -> tuple[str, int, int]:
    return finding.source, finding.seq, finding.events


def _until(agents: Sequence[ExpectedAgent]) -> list[tuple[int, int]]:
    """Returns pairs of times, up to when an agent is done and up to when it is required: of agents
    that are required for ever, only the one furthest behind."""
    due_agents: list[tuple[int, int]] = []
    latest_until: int | None = None
    for agent in agents:
        if agent.required_until is None:
            if latest_until is None or agent.until < latest_until:
                latest_until = agent.until
        elif agent.until < agent.required_until:
            due_agents.append((agent.until, agent.required_until))
    if latest_until is not None:
        due_agents.append((latest_until, _FOR_EVER))
    return due_agents


def _waits_for_agents(window: Window, done: Sequence[tuple[int, int]]) -> bool:
    end = window.start + window.length
    return any(
        until < min(end, needed_until) and window.start < needed_until
        for until, needed_until in done
    )


def lay(
    faults: Sequence[Fault], lack: dict[int, int], axis: Axis, awaited: Collection[int]
) -> list[Fault]:
    """Subtracts the events that these faults explain from what each window lacks, and returns the
    faults that explain nothing. A fault without a time may be in any window. Windows that still
    expect reports come last, because those reports may explain what they lack."""
    remaining_events = {id(fault): fault.count for fault in faults}
    for windows in (
        [number for number in sorted(lack) if number not in awaited],
        [number for number in sorted(lack) if number in awaited],
    ):
        _lay(faults, windows, lack, remaining_events, axis)
    return [fault for fault in faults if not fault.windows]


def _lay(
    faults: Sequence[Fault],
    windows: Sequence[int],
    lack: dict[int, int],
    remaining: dict[int, int],
    axis: Axis,
) -> None:
    ranges = {id(fault): axis.touched(*_times(fault)) for fault in faults if fault.has_time}
    candidates = [fault for fault in faults if fault.has_time and remaining[id(fault)]]
    candidates.sort(key=lambda fault: ranges[id(fault)].start)
    heap: list[tuple[int, int, Fault]] = []
    index = 0
    for window in windows:
        while index < len(candidates) and ranges[id(candidates[index])].start <= window:
            heappush(heap, (ranges[id(candidates[index])].stop, index, candidates[index]))
            index += 1
        while heap and lack[window]:
            stop, _, fault = heap[0]
            if stop <= window or not remaining[id(fault)]:
                heappop(heap)
                continue
            _take(fault, window, lack, remaining)
    for fault in faults:
        if not fault.has_time:
            for window in windows:
                if not remaining[id(fault)]:
                    break
                _take(fault, window, lack, remaining)


def attach(faults: Iterable[Fault], axis: Axis) -> None:
    """Attaches faults without windows to all windows in which they may be."""
    for fault in faults:
        if not fault.windows and fault.has_time:
            fault.windows.extend(axis.touched(*_times(fault)))


def _take(fault: Fault, window: int, lack: dict[int, int], remaining: dict[int, int]) -> None:
    taken_events = min(remaining[id(fault)], lack[window])
    if taken_events:
        lack[window] -= taken_events
        remaining[id(fault)] -= taken_events
        fault.windows.append(window)


def _times(fault: Fault) -> tuple[int, int]:
    return fault.finding.from_time, fault.finding.to_time

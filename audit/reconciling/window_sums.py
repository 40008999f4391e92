"""Compares the sums of two adjacent tiers window by window: how many events are missing, pending,
too many or unclaimed, and which faults follow.

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
    """Windows of lacking offsets that may still be explained; `anywhere` if the time of some of
    these events is unknown."""

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
            touched = axis.touched(span.from_time, span.to_time)
            self._inexact.setdefault(span.tier, set()).update(touched)
        self.agents_awaited: set[int] = set()
        if any(tier.kind is TierKind.AGENT for tier in picture.tiers):
            done = _until(picture.agents)
            least = min((up_to for up_to, _ in done), default=_FOR_EVER)
            self.agents_awaited = {
                number
                for number, window in enumerate(axis.windows)
                if window.start + window.length > least and _waits_for_agents(window, done)
            }

    def of(
        self,
        passing: Passing,
        named: NamedMissing,
        damaged: Sequence[Fault],
        next_tiers: Sequence[NamedMissing] = (),
    ) -> Tallied:
        """Compares one pair. `damaged`: the faults of all damaged batches. `next_tiers`: the named
        events that later tiers lack; those that this one lacks already are moved here."""
        damaged = [
            batch
            for batch in damaged
            if passing.lacks(batch) or self._is_rebuilt(passing.pair.later, batch.finding)
        ]
        doubled = cut(landed_twice(self._picture, passing.pair.later), self._picture.accepted)
        tallied = Tallied(passing, doubled)
        lack: dict[int, int] = {}
        excess: dict[int, int] = {}
        changed: list[int] = []
        uncounted: list[int] = []
        for number, window in enumerate(self._windows):
            if window.uncounted and not is_counted(window, passing.pair):
                uncounted.append(number)
                continue
            surplus, is_changed = compared(window, passing.pair)
            if surplus > 0:
                lack[number] = surplus
            elif surplus < 0:
                excess[number] = -surplus
            elif is_changed:
                changed.append(number)
        whole = dict(lack)
        tallied.faults = self._named(passing, named, damaged, lack)
        tallied.faults += self._lost_before(passing, next_tiers, lack)
        unsettled = self._unsettled(passing, named)
        self._lacking(passing, unsettled, whole, lack, tallied)
        unnamed = dict(excess)
        lay(doubled, unnamed, self._axis, ())
        for number, events in excess.items():
            self._too_many(passing, number, events, unnamed[number], tallied)
        for number in (*uncounted, *excess, *changed):
            if awaited := self._unseen(passing, unsettled, number):
                tallied.waits.setdefault(number, set()).update(awaited)
        self._changed(passing, changed, tallied)
        return tallied

    def _named(
        self, passing: Passing, named: NamedMissing, damaged: Sequence[Fault], lack: dict[int, int]
    ) -> list[Fault]:
        awaited = {number for number in lack if self._awaits(passing, number)}
        lay(damaged, lack, self._axis, awaited)
        certain = self._settled(named.certain, passing)
        sure: list[Fault] = []
        dead: list[Fault] = []
        for fault in self._settled(named.doubtful, passing):
            (dead if self._may_be_dead(fault, passing.pair) else sure).append(fault)
        faults = [*certain, *sure]
        lay(faults, lack, self._axis, awaited)
        unlaid = {id(fault) for fault in lay(dead, lack, self._axis, awaited)}
        faults += [fault for fault in dead if id(fault) not in unlaid]
        attach(faults, self._axis)
        return faults

    def _lost_before(
        self, passing: Passing, next_tiers: Sequence[NamedMissing], lack: dict[int, int]
    ) -> list[Fault]:
        """Returns named events that offsets do not prove to have reached this tier: a leader had
        them that was succeeded before it reported them, and other events are at their offsets now.
        If the sums lack as many here, they are missing here."""
        kind, destination = passing.pair.later
        open_ = {
            number: events
            for number, events in lack.items()
            if events and not self._is_exact(passing, number) and not self._awaits(passing, number)
        }
        if not open_ or not next_tiers or self._holes(kind, young=False):
            return []
        candidates = [
            fault
            for fault in self._open_to_nothing(next_tiers[0].doubtful, passing)
            if fault.pair is not None and not self._may_be_dead(fault, fault.pair)
        ]
        lay(candidates, open_, self._axis, ())
        lack.update(open_)
        faults = [fault for fault in candidates if fault.windows]
        names = {_name(fault.finding) for fault in faults}
        for lack_there in next_tiers:
            lack_there.doubtful[:] = [
                fault for fault in lack_there.doubtful if _name(fault.finding) not in names
            ]
        for fault in faults:
            fault.pair = passing.pair
            fault.finding = replace(fault.finding, tier=kind.value, destination=destination)
        faults = cut(faults, self._picture.accepted)
        attach(faults, self._axis)
        return faults

    def _unsettled(self, passing: Passing, named: NamedMissing) -> _Unsettled:
        settled = {id(fault) for fault in self._open_to_nothing(named.certain, passing)}
        unsettled = [fault for fault in named.certain if id(fault) not in settled]
        return _Unsettled(
            frozenset(
                number
                for fault in unsettled
                if fault.has_time
                for number in self._axis.touched(fault.finding.from_time, fault.finding.to_time)
            ),
            anywhere=not all(fault.has_time for fault in unsettled),
        )

    def _settled(self, faults: Iterable[Fault], passing: Passing) -> list[Fault]:
        """Returns the faults that no later statement can explain."""
        kind = passing.pair.later.kind
        last_hole = max(self._holes(kind, young=False), default=-1)
        settled = self._open_to_nothing(faults, passing)
        for fault in settled:
            if fault.finding.from_time <= last_hole:
                fault.doubt(FaultKind.UNPROVEN, self._hole_reason(kind))
        return cut(settled, self._picture.accepted)

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
        touched = self._axis.touched(fault.finding.from_time, fault.finding.to_time)
        return any(sums_at(self._windows[number], pair.later).dead for number in touched)

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
            awaited = self._awaits(passing, number) if unnamed[number] else set()
            pending = unnamed[number] if awaited else 0
            may_be_here = unsettled.anywhere or number in unsettled.windows
            exact = self._is_exact(passing, number) and not may_be_here
            moved = unnamed[number] if exact and not awaited else 0
            tallied.steps[number] = Step(
                pair, missing=events - pending - moved, pending=pending, elsewhere=-moved
            )
            if awaited:
                tallied.waits[number] = awaited
            elif unnamed[number] and not moved:
                unproven = window.start <= last_hole
                kind = FaultKind.UNPROVEN if unproven else FaultKind.UNNAMED
                reason = self._hole_reason(pair.later.kind) if unproven else ""
                tallied.faults.append(self._of_window(number, pair, kind, unnamed[number], reason))

    def _awaits(self, passing: Passing, number: int) -> set[str]:
        """Returns what may still report something of a window that lacks events."""
        window = self._windows[number]
        kind = passing.pair.later.kind
        awaited = {kind.value} if number in passing.pending else set()
        last_young_hole = max(self._holes(kind, young=True), default=-1)
        if self._is_fresh(window.start + window.length) or window.start <= last_young_hole:
            awaited.add(LEDGER)
        return awaited

    def _unseen(self, passing: Passing, unsettled: _Unsettled, number: int) -> set[str]:
        """Returns the same of a window whose sums show no lack: other events can hide it."""
        awaited = {passing.pair.later.kind.value} if number in passing.pending else set()
        if number in unsettled.windows:
            awaited.add(LEDGER)
        return awaited

    def _is_exact(self, passing: Passing, number: int) -> bool:
        """Whether offsets prove what became of all events that may be in this window."""
        return not any(number in self._inexact.get(tier, ()) for tier in passing.pair)

    def _too_many(
        self, passing: Passing, number: int, events: int, unnamed: int, tallied: Tallied
    ) -> None:
        """Judges a surplus of events. `unnamed`: how many of them have no names."""
        pair = passing.pair
        window = self._windows[number]
        unclaimed = min(events, self._unspoken(passing, number))
        if pair.later.kind in {TierKind.ORIGIN, TierKind.BROKER} or self._is_fresh(
            window.start + window.length
        ):
            unclaimed = events
        if pair.earlier.kind is TierKind.AGENT and number in self.agents_awaited:
            unclaimed = events
        excess = events - unclaimed
        nameless = min(excess, unnamed)
        moved = nameless if self._is_exact(passing, number) else 0
        excess -= moved
        tallied.steps[number] = Step(
            pair,
            excess=excess,
            unclaimed=unclaimed,
            unclaimed_yet=unclaimed if self._may_be_claimed(passing, number) else 0,
            elsewhere=moved,
        )
        if nameless > moved:
            tallied.faults.append(
                self._of_window(number, pair, FaultKind.DUPLICATED, nameless - moved)
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
        first = next(
            (
                window.start
                for window in self._windows
                if sums_at(window, passing.pair.earlier).events
            ),
            None,
        )
        early = first is None or self._windows[number].start < first + _BEGINNING
        if early or self._holes(kind, young=True) or self._holes(kind, young=False):
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
        explained = {number for time in times for number in self._axis.touched(*time)}
        for number in changed:
            window = self._windows[number]
            if number in tallied.waits:
                continue
            if self._is_fresh(window.start + window.length):
                tallied.waits[number] = {LEDGER}
            elif number not in explained and not self._statements_missing(passing, number):
                events = sums_at(window, passing.pair.later).events
                tallied.faults.append(
                    self._of_window(number, passing.pair, FaultKind.CHANGED, events)
                )

    def _statements_missing(self, passing: Passing, number: int) -> bool:
        """Whether statements are missing, so that counts may be equal by chance."""
        from_agents = passing.pair.earlier.kind is TierKind.AGENT
        return (
            (from_agents and number in self.agents_awaited)
            or (not from_agents and (passing.ahead or passing.uncounted))
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
    due: list[tuple[int, int]] = []
    behind: int | None = None
    for agent in agents:
        if agent.required_until is None:
            if behind is None or agent.until < behind:
                behind = agent.until
        elif agent.until < agent.required_until:
            due.append((agent.until, agent.required_until))
    if behind is not None:
        due.append((behind, _FOR_EVER))
    return due


def _waits_for_agents(window: Window, done: Sequence[tuple[int, int]]) -> bool:
    end = window.start + window.length
    return any(up_to < min(end, needed) and window.start < needed for up_to, needed in done)


def lay(
    faults: Sequence[Fault], lack: dict[int, int], axis: Axis, awaited: Collection[int]
) -> list[Fault]:
    """Subtracts from the lack of each window what these faults explain, and returns the faults that
    explain nothing. A fault without a time may be in any window. Windows that still expect reports
    come last, since their lack may have a better reason."""
    remaining = {id(fault): fault.count for fault in faults}
    for numbers in (
        [number for number in sorted(lack) if number not in awaited],
        [number for number in sorted(lack) if number in awaited],
    ):
        _lay(faults, numbers, lack, remaining, axis)
    return [fault for fault in faults if not fault.windows]


def _lay(
    faults: Sequence[Fault],
    windows: Sequence[int],
    lack: dict[int, int],
    remaining: dict[int, int],
    axis: Axis,
) -> None:
    touched = {id(fault): axis.touched(*_times(fault)) for fault in faults if fault.has_time}
    coming = [fault for fault in faults if fault.has_time and remaining[id(fault)]]
    coming.sort(key=lambda fault: touched[id(fault)].start)
    active: list[tuple[int, int, Fault]] = []
    next_ = 0
    for window in windows:
        while next_ < len(coming) and touched[id(coming[next_])].start <= window:
            heappush(active, (touched[id(coming[next_])].stop, next_, coming[next_]))
            next_ += 1
        while active and lack[window]:
            stop, _, fault = active[0]
            if stop <= window or not remaining[id(fault)]:
                heappop(active)
                continue
            _take(fault, window, lack, remaining)
    for fault in faults:
        if not fault.has_time:
            for window in windows:
                if not remaining[id(fault)]:
                    break
                _take(fault, window, lack, remaining)


def attach(faults: Iterable[Fault], axis: Axis) -> None:
    """Attaches faults without windows to all windows that they may be in."""
    for fault in faults:
        if not fault.windows and fault.has_time:
            fault.windows.extend(axis.touched(*_times(fault)))


def _take(fault: Fault, window: int, lack: dict[int, int], remaining: dict[int, int]) -> None:
    taken = min(remaining[id(fault)], lack[window])
    if taken:
        lack[window] -= taken
        remaining[id(fault)] -= taken
        fault.windows.append(window)


def _times(fault: Fault) -> tuple[int, int]:
    return fault.finding.from_time, fault.finding.to_time

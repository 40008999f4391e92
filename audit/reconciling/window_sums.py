"""Each window's events on the way between two tiers: how many are missing, pending, too many, or
unclaimed, and which faults that makes.

Sums are compared window by window. Where they differ, offsets have been looked at before: if both
tiers have said of all their offsets exactly what became of each, then what has no lacking offset to
explain it is neither missing nor doubled. It is in another window at the later tier, as with events
whose producer gave them another time than their records. Where sums cannot show that something is
lacking, offsets alone tell what is still to come.

What is named as missing is weighed against what sums lack. An event is in one window, but its batch
may reach into several. So faults are laid on the windows that they may be in, those that must end
first being laid first, until the lack is filled; nobody can name the rest.
"""

from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush

import msgspec
from msgspec.structs import replace

from audit.findings import FaultKind, Finding
from audit.picture import ExpectedAgent, Tier, TierKind, TopicPicture, Window
from audit.reconciling import words
from audit.reconciling.faults import Fault, cut
from audit.reconciling.missing import NamedMissing, Passing
from audit.reconciling.stated_faults import is_young, landed_twice
from audit.reconciling.windows import Axis, Pair, Step, compared, is_counted, sums_at

_BEGINNING = 3_600_000  # of a tier's statements: events were late by so much then
LEDGER = "ledger"  # what is waited for where a statement may be under way
_FOR_EVER = 1 << 62


class _Unsettled(msgspec.Struct, frozen=True):
    """Windows of offsets that are lacking, about which something may still be said; `anywhere` if
    nobody knows when some of these events happened."""

    windows: frozenset[int]
    anywhere: bool


class Tallied(msgspec.Struct):
    """Of one pair of tiers; `steps` by window, where there is anything but what adds up. `doubled`
    are events that the later tier has twice."""

    passing: Passing
    doubled: list[Fault]
    steps: dict[int, Step] = {}
    faults: list[Fault] = []
    waits: dict[int, set[str]] = {}


class Tally:
    """What is the same for all pairs of tiers of a picture."""

    def __init__(self, picture: TopicPicture, axis: Axis) -> None:
        self._picture = picture
        self._windows = axis.windows
        self._axis = axis
        self._hole_times: dict[tuple[TierKind, bool], list[int]] = {}
        for hole in picture.holes:
            key = hole.tier, is_young(hole, picture)
            self._hole_times.setdefault(key, []).append(hole.to_time)
        self._inexact: dict[Tier, set[int]] = {}
        for each in picture.inexact:
            touched = axis.touched(each.from_time, each.to_time)
            self._inexact.setdefault(each.tier, set()).update(touched)
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
        beyond: Sequence[NamedMissing] = (),
    ) -> Tallied:
        """`damaged` are the faults of all batches that are. `beyond`: what the next tiers lack, by
        its names; what of it this one lacks already is taken from there."""
        damaged = [each for each in damaged if passing.lacks(each)]
        doubled = cut(landed_twice(self._picture, passing.pair.later), self._picture.accepted)
        tallied = Tallied(passing, doubled)
        lack: dict[int, int] = {}
        over: dict[int, int] = {}
        changed: list[int] = []
        uncounted: list[int] = []
        for number, window in enumerate(self._windows):
            if window.uncounted and not is_counted(window, passing.pair):
                uncounted.append(number)
                continue
            more, is_changed = compared(window, passing.pair)
            if more > 0:
                lack[number] = more
            elif more < 0:
                over[number] = -more
            elif is_changed:
                changed.append(number)
        whole = dict(lack)
        tallied.faults = self._named(passing, named, damaged, lack)
        tallied.faults += self._lost_before(passing, beyond, lack)
        unsettled = self._unsettled(passing, named)
        self._lacking(passing, unsettled, whole, lack, tallied)
        unnamed = dict(over)
        lay(doubled, unnamed, self._axis, ())
        for number, events in over.items():
            self._too_many(passing, number, events, unnamed[number], tallied)
        for number in (*uncounted, *over, *changed):
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
        unlaid = {id(each) for each in lay(dead, lack, self._axis, awaited)}
        faults += [each for each in dead if id(each) not in unlaid]
        attach(faults, self._axis)
        return faults

    def _lost_before(
        self, passing: Passing, beyond: Sequence[NamedMissing], lack: dict[int, int]
    ) -> list[Fault]:
        """What agents name, and offsets do not prove to have come to this tier: a leader had it
        that was succeeded before it said so, and others lie at its offsets now. Where sums lack as
        much here, it is here that it is missing."""
        kind, destination = passing.pair.later
        open_ = {
            number: events
            for number, events in lack.items()
            if events and not self._is_exact(passing, number) and not self._awaits(passing, number)
        }
        if not open_ or not beyond or self._holes(kind, young=False):
            return []
        named = [
            each
            for each in self._open_to_nothing(beyond[0].doubtful, passing)
            if each.pair is not None and not self._may_be_dead(each, each.pair)
        ]
        lay(named, open_, self._axis, ())
        lack.update(open_)
        found = [each for each in named if each.windows]
        names = {_name(each.finding) for each in found}
        for each in beyond:
            each.doubtful[:] = [one for one in each.doubtful if _name(one.finding) not in names]
        for fault in found:
            fault.pair = passing.pair
            fault.finding = replace(fault.finding, tier=kind.value, destination=destination)
        found = cut(found, self._picture.accepted)
        attach(found, self._axis)
        return found

    def _unsettled(self, passing: Passing, named: NamedMissing) -> _Unsettled:
        settled = {id(each) for each in self._open_to_nothing(named.certain, passing)}
        others = [each for each in named.certain if id(each) not in settled]
        return _Unsettled(
            frozenset(
                number
                for each in others
                if each.has_time
                for number in self._axis.touched(each.finding.from_time, each.finding.to_time)
            ),
            anywhere=not all(each.has_time for each in others),
        )

    def _settled(self, faults: Iterable[Fault], passing: Passing) -> list[Fault]:
        """Without those about which something may still be said."""
        kind = passing.pair.later.kind
        old = max(self._holes(kind, young=False), default=-1)
        found = self._open_to_nothing(faults, passing)
        for fault in found:
            if fault.finding.from_time <= old:
                fault.doubt(FaultKind.UNPROVEN, self._hole_reason(kind))
        return cut(found, self._picture.accepted)

    def _open_to_nothing(self, faults: Iterable[Fault], passing: Passing) -> list[Fault]:
        young = max(self._holes(passing.pair.later.kind, young=True), default=-1)
        return [
            each
            for each in faults
            if not self._is_fresh(each.finding.to_time) and each.finding.from_time > young
        ]

    def _may_be_dead(self, fault: Fault, pair: Pair) -> bool:
        """Whether anything that may be this became a dead letter at the later tier."""
        touched = self._axis.touched(fault.finding.from_time, fault.finding.to_time)
        return any(sums_at(self._windows[each], pair.later).dead for each in touched)

    def _lacking(
        self,
        passing: Passing,
        unsettled: _Unsettled,
        whole: dict[int, int],
        rest: dict[int, int],
        tallied: Tallied,
    ) -> None:
        pair = passing.pair
        old = max(self._holes(pair.later.kind, young=False), default=-1)
        for number, events in whole.items():
            window = self._windows[number]
            awaited = self._awaits(passing, number) if rest[number] else set()
            pending = rest[number] if awaited else 0
            may_be_here = unsettled.anywhere or number in unsettled.windows
            exact = self._is_exact(passing, number) and not may_be_here
            moved = rest[number] if exact and not awaited else 0
            tallied.steps[number] = Step(
                pair, missing=events - pending - moved, pending=pending, elsewhere=-moved
            )
            if awaited:
                tallied.waits[number] = awaited
            elif rest[number] and not moved:
                unproven = window.start <= old
                kind = FaultKind.UNPROVEN if unproven else FaultKind.UNNAMED
                reason = self._hole_reason(pair.later.kind) if unproven else ""
                tallied.faults.append(self._of_window(number, pair, kind, rest[number], reason))

    def _awaits(self, passing: Passing, number: int) -> set[str]:
        """What may still be said about a window that lacks something."""
        window = self._windows[number]
        kind = passing.pair.later.kind
        awaited = {kind.value} if number in passing.pending else set()
        young = max(self._holes(kind, young=True), default=-1)
        if self._is_fresh(window.start + window.length) or window.start <= young:
            awaited.add(LEDGER)
        return awaited

    def _unseen(self, passing: Passing, unsettled: _Unsettled, number: int) -> set[str]:
        """What may still be said about a window whose sums show no lack: others can hide it."""
        awaited = {passing.pair.later.kind.value} if number in passing.pending else set()
        if number in unsettled.windows:
            awaited.add(LEDGER)
        return awaited

    def _is_exact(self, passing: Passing, number: int) -> bool:
        """Whether offsets prove what became of all that may be in this window."""
        return not any(number in self._inexact.get(tier, ()) for tier in passing.pair)

    def _too_many(
        self, passing: Passing, number: int, events: int, unnamed: int, tallied: Tallied
    ) -> None:
        """Of which so many have no name."""
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
        """Whether the earlier tier may still speak of these events: agents say what they have
        shipped, and brokers what they have, some time later; after a kill, once they run again."""
        window = self._windows[number]
        kind = passing.pair.earlier.kind
        return (
            passing.ahead
            or bool(self._holes(kind, young=True))
            or (kind is TierKind.AGENT and number in self.agents_awaited)
            or self._is_fresh(window.start + window.length)
        )

    def _unspoken(self, passing: Passing, number: int) -> int:
        """How many events there can be of which the earlier tier has not spoken. Such as were there
        before it began to speak are in windows before its first ones, or in those about them."""
        if not passing.before:
            return passing.unspoken
        kind = passing.pair.earlier.kind
        first = next(
            (each.start for each in self._windows if sums_at(each, passing.pair.earlier).events),
            None,
        )
        early = first is None or self._windows[number].start < first + _BEGINNING
        if early or self._holes(kind, young=True) or self._holes(kind, young=False):
            return passing.unspoken + passing.before
        return passing.unspoken

    def _changed(self, passing: Passing, changed: Collection[int], tallied: Tallied) -> None:
        """Where events were shipped more than once, an agent that has forgotten the first time says
        so of another time: as many may be so by chance."""
        if not changed:
            return
        times = [(each.finding.from_time, each.finding.to_time) for each in tallied.faults]
        times += [
            (each.from_time, each.to_time)
            for source in self._picture.sources
            for each in source.twice
        ]
        explained = {number for each in times for number in self._axis.touched(*each)}
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
        """Whether as many events may be so by chance."""
        from_agents = passing.pair.earlier.kind is TierKind.AGENT
        return (
            (from_agents and number in self.agents_awaited)
            or (not from_agents and (passing.ahead or passing.uncounted))
            or any(
                self._windows[number].start <= each
                for tier in passing.pair
                for young in (False, True)
                for each in self._holes(tier.kind, young=young)
            )
        )

    def _of_window(
        self, number: int, pair: Pair, kind: FaultKind, events: int, reason: str = ""
    ) -> Fault:
        window = self._windows[number]
        finding = Finding(
            kind=kind,
            words="",
            tier=pair.later.kind.value,
            destination=pair.later.destination,
            events=events,
            from_time=window.start,
            to_time=window.start + window.length,
        )
        return Fault(finding, pair=pair, count=events, reason=reason, windows=[number])

    def _is_fresh(self, time: int) -> bool:
        return time >= 0 and time + self._picture.grace_millis > self._picture.now

    def _holes(self, kind: TierKind, *, young: bool) -> Sequence[int]:
        return self._hole_times.get((kind, young), ())

    def _hole_reason(self, kind: TierKind) -> str:
        return next(
            words.hole_reason(each)
            for each in self._picture.holes
            if each.tier is kind and not is_young(each, self._picture)
        )


def _name(one: Finding) -> tuple[str, int, int]:
    return one.source, one.seq, one.events


def _until(agents: Sequence[ExpectedAgent]) -> list[tuple[int, int]]:
    """(up to when one is done, up to when it has to be), as pairs that say all: of those that have
    to be for ever, the one that is furthest behind."""
    found: list[tuple[int, int]] = []
    behind: int | None = None
    for each in agents:
        if each.required_until is None:
            if behind is None or each.until < behind:
                behind = each.until
        elif each.until < each.required_until:
            found.append((each.until, each.required_until))
    if behind is not None:
        found.append((behind, _FOR_EVER))
    return found


def _waits_for_agents(window: Window, done: Sequence[tuple[int, int]]) -> bool:
    end = window.start + window.length
    return any(up_to < min(end, needed) and window.start < needed for up_to, needed in done)


def lay(
    faults: Sequence[Fault], lack: dict[int, int], axis: Axis, awaited: Collection[int]
) -> list[Fault]:
    """Takes from the lack of each window what these faults explain. What they found no place for
    is returned; whose time is not known may be anywhere. Windows for which something is awaited
    come last: what they lack may have a better reason."""
    left = {id(each): each.count for each in faults}
    for some in (
        [each for each in sorted(lack) if each not in awaited],
        [each for each in sorted(lack) if each in awaited],
    ):
        _lay(faults, some, lack, left, axis)
    return [each for each in faults if not each.windows]


def _lay(
    faults: Sequence[Fault],
    windows: Sequence[int],
    lack: dict[int, int],
    left: dict[int, int],
    axis: Axis,
) -> None:
    touched = {id(each): axis.touched(*_times(each)) for each in faults if each.has_time}
    coming = [each for each in faults if each.has_time and left[id(each)]]
    coming.sort(key=lambda each: touched[id(each)].start)
    active: list[tuple[int, int, Fault]] = []
    at = 0
    for window in windows:
        while at < len(coming) and touched[id(coming[at])].start <= window:
            heappush(active, (touched[id(coming[at])].stop, at, coming[at]))
            at += 1
        while active and lack[window]:
            stop, _, fault = active[0]
            if stop <= window or not left[id(fault)]:
                heappop(active)
                continue
            _take(fault, window, lack, left)
    for fault in faults:
        if not fault.has_time:
            for window in windows:
                if not left[id(fault)]:
                    break
                _take(fault, window, lack, left)


def attach(faults: Iterable[Fault], axis: Axis) -> None:
    """To all windows that they may be in, where they have none yet."""
    for fault in faults:
        if not fault.windows and fault.has_time:
            fault.windows.extend(axis.touched(*_times(fault)))


def _take(fault: Fault, window: int, lack: dict[int, int], left: dict[int, int]) -> None:
    taken = min(left[id(fault)], lack[window])
    if taken:
        lack[window] -= taken
        left[id(fault)] -= taken
        fault.windows.append(window)


def _times(fault: Fault) -> tuple[int, int]:
    return fault.finding.from_time, fault.finding.to_time

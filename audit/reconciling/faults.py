"""A fault while it is being judged: a finding without words, and what is needed to weigh it.

What an operator has accepted: all that an acceptance gives must apply to a fault; a fault of which
only a part is accepted is cut there, where its offsets or entries tell where. Offsets are given
again where a log has lost its end, sources and their numbers never are. So who accepts offsets
accepts what had been written there by then, or lost by then from the log.

Faults that go on in each other become one: events that follow each other in a file and a partition,
windows that follow each other in time. Only what is accepted alike is joined.
"""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from audit.api.attribution import said_by
from audit.findings import FaultKind, Finding
from audit.picture import Acceptance
from audit.reconciling.windows import Pair
from ground.intervals import Intervals, covers, has


class Fault(msgspec.Struct):
    """`windows` are the numbers of those that it is a fault of. Where `exact` is not set, the bytes
    and events named are those around what is meant."""

    finding: Finding
    pair: Pair | None = None  # on the way between which tiers
    exact: bool = True
    count: int = 0  # events, as many as there can be
    named: int = 0  # entries of a journal, with their first seq in the finding
    reason: str = ""
    harmless: str = ""  # why it needs nobody to accept it
    since: int = -1  # when it was written, or the log lost it; -1: not known
    traces: str = ""  # of a time in which nobody watched
    windows: list[int] = []

    def doubt(self, kind: FaultKind, reason: str) -> None:
        """It may be so that only a statement is missing."""
        self.finding = replace(self.finding, kind=kind)
        self.reason = reason

    @property
    def has_time(self) -> bool:
        return self.finding.from_time >= 0


def cut(faults: Iterable[Fault], accepted: Sequence[Acceptance]) -> list[Fault]:
    """The same faults, in pieces of which each is accepted as a whole or not at all."""
    found: list[Fault] = []
    for fault in faults:
        points = {point for each in accepted for point in _points(each, fault)}
        found.extend(_pieces(fault, sorted(points)) if points else [fault])
    return found


def why_accepted(fault: Fault, accepted: Sequence[Acceptance]) -> str:
    """Nothing if it is not."""
    for each in accepted:
        if _applies(each, fault):
            return said_by(each.reason or "accepted", each.operator, each.time)
    return ""


def _applies(given: Acceptance, fault: Fault) -> bool:
    one = fault.finding
    if given.kinds and one.tier not in given.kinds:
        return False
    if given.partition >= 0 and given.partition != one.partition:
        return False
    if given.offsets and not _by_offsets(given, fault):
        return False
    if (given.seqs or given.bytes) and not (_by_seqs(given, fault) or _by_bytes(given, one)):
        return False
    if given.host and given.host != one.host:
        return False
    if given.from_time is not None and one.from_time < given.from_time:
        return False
    return given.to_time is None or (one.from_time >= 0 and _end(one) <= given.to_time)


def _by_offsets(given: Acceptance, fault: Fault) -> bool:
    one = fault.finding
    is_named = given.seqs or given.bytes
    return (
        one.offset >= 0
        and (bool(is_named) or fault.since <= given.time)
        and covers(given.offsets, ((one.offset, one.offset + one.offsets),))
    )


def _end(one: Finding) -> int:
    return max(one.to_time, one.from_time + 1)


def _by_seqs(given: Acceptance, fault: Fault) -> bool:
    one = fault.finding
    count = fault.named or max(one.events, 0)
    seqs = given.seqs.get(one.source, ())
    return bool(count) and one.seq >= 0 and covers(seqs, ((one.seq, one.seq + count),))


def _by_bytes(given: Acceptance, one: Finding) -> bool:
    if one.kind is FaultKind.UNKNOWN and one.position >= 0:  # nobody knows where it ends
        return has(given.bytes.get(one.source, ()), one.position)
    known = 0 <= one.position < one.end_position
    return known and covers(given.bytes.get(one.source, ()), ((one.position, one.end_position),))


def _is_time(one: Finding) -> bool:
    """In which nobody looked at a folder."""
    return one.kind is FaultKind.UNKNOWN and one.position < 0 and one.offset < 0


def _points(given: Acceptance, fault: Fault) -> list[int]:
    """How many entries or offsets of the fault lie before each place where it is to be cut; or the
    times at which it is."""
    one = fault.finding
    if _is_time(one):
        times = (given.from_time, given.to_time)
        return [each for each in times if each is not None and one.from_time < each < one.to_time]
    if fault.named:
        return _within(given.seqs.get(one.source, ()), one.seq, fault.named)
    if one.offset < 0 or not fault.count:
        return []
    found: list[int] = []
    if given.partition in (-1, one.partition):
        found += _within(given.offsets, one.offset, fault.count)
    if one.seq >= 0:
        found += _within(given.seqs.get(one.source, ()), one.seq, fault.count)
    return found


def _within(given: Intervals, first: int, count: int) -> list[int]:
    ends = (end - first for pair in given for end in pair)
    return [end for end in ends if 0 < end < count]


def _pieces(fault: Fault, points: Sequence[int]) -> list[Fault]:
    one = fault.finding
    if _is_time(one):
        times = zip((one.from_time, *points), (*points, one.to_time), strict=True)
        pieces = (replace(one, from_time=first, to_time=after) for first, after in times)
        return [
            Fault(piece, reason=fault.reason, harmless=fault.harmless, traces=fault.traces)
            for piece in pieces
        ]
    size = fault.named or fault.count
    return [
        _piece(fault, first, after - first)
        for first, after in zip((0, *points), (*points, size), strict=True)
    ]


def _piece(fault: Fault, skipped: int, count: int) -> Fault:
    one = fault.finding
    if fault.named:
        return Fault(replace(one, seq=one.seq + skipped), named=count, reason=fault.reason)
    piece = replace(
        one,
        seq=one.seq + skipped if one.seq >= 0 else -1,
        events=count if one.events >= 0 else -1,
        offset=one.offset + skipped,
        offsets=count,
    )
    return Fault(
        piece,
        pair=fault.pair,
        exact=False,
        count=count,
        reason=fault.reason,
        harmless=fault.harmless,
        since=fault.since,
    )


def joined(faults: Iterable[Fault]) -> list[Fault]:
    of_files: list[Fault] = []
    of_windows: list[Fault] = []
    others: list[Fault] = []
    for fault in faults:
        one = fault.finding
        if one.source and one.partition >= 0:
            of_files.append(fault)
        elif one.source or one.path or one.partition >= 0:
            others.append(fault)
        else:
            of_windows.append(fault)
    return [*_of_files(of_files), *_of_windows(of_windows), *others]


def _of_files(faults: list[Fault]) -> list[Fault]:
    found: list[Fault] = []
    for fault in sorted(faults, key=_offset_of):
        if found and _follows(found[-1], fault):
            _add(found[-1], fault)
        else:
            found.append(fault)
    return found


def _offset_of(fault: Fault) -> tuple[str, ...]:
    one = fault.finding
    return (one.source, one.tier, one.destination, one.kind, f"{one.partition:09}{one.offset:020}")


def _follows(before: Fault, fault: Fault) -> bool:
    one, two = before.finding, fault.finding
    return (
        before.exact
        and fault.exact
        and before.reason == fault.reason
        and (one.source, one.tier, one.destination, one.kind, one.partition, one.accepted)
        == (two.source, two.tier, two.destination, two.kind, two.partition, two.accepted)
        and (one.offset + one.offsets, one.seq + one.events, one.end_position)
        == (two.offset, two.seq, two.position)
    )


def _add(before: Fault, fault: Fault) -> None:
    one, two = before.finding, fault.finding
    before.finding = replace(
        one,
        events=one.events + two.events,
        offsets=one.offsets + two.offsets,
        end_position=two.end_position,
        from_time=min(one.from_time, two.from_time),
        to_time=max(one.to_time, two.to_time),
    )
    before.count += fault.count
    before.windows += fault.windows


def _of_windows(faults: list[Fault]) -> list[Fault]:
    found: list[Fault] = []
    last: dict[tuple[str, ...], Fault] = {}
    for fault in sorted(faults, key=lambda each: each.finding.from_time):
        one = fault.finding
        key = (one.kind, one.tier, one.destination, one.accepted, fault.reason)
        before = last.get(key)
        if before is not None and before.finding.to_time == one.from_time:
            events = before.finding.events + one.events
            before.finding = replace(before.finding, events=events, to_time=one.to_time)
            before.windows += fault.windows
        else:
            found.append(fault)
            last[key] = fault
    return found

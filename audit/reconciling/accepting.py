"""What an operator has accepted. All that an acceptance gives must apply to a fault; a fault of
which only a part is accepted is cut there, where its offsets or entries tell where.

Offsets are given again where a log has lost its end, sources and their numbers never are. So who
accepts offsets accepts what had been written there by then, or lost by then from the log.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from audit.picture import Acceptance, Intervals
from audit.reconciling.faults import Fault
from audit.reconciling.intervals import covers, has
from audit.verdicts import Finding, Kind


def cut(faults: Iterable[Fault], accepted: Sequence[Acceptance]) -> list[Fault]:
    """The same faults, in pieces of which each is accepted as a whole or not at all."""
    found: list[Fault] = []
    for fault in faults:
        points = {point for each in accepted for point in _points(each, fault)}
        found.extend(_pieces(fault, sorted(points)) if points else [fault])
    return found


def reason(fault: Fault, accepted: Sequence[Acceptance]) -> str:
    """Why it is accepted; nothing if it is not."""
    for each in accepted:
        if _applies(each, fault):
            who = f" ({each.operator})" if each.operator else ""
            return (each.reason or "accepted") + who
    return ""


def _applies(given: Acceptance, fault: Fault) -> bool:
    one = fault.finding
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
    if one.kind is Kind.UNKNOWN and one.position >= 0:  # nobody knows where it ends
        return has(given.bytes.get(one.source, ()), one.position)
    known = 0 <= one.position < one.end_position
    return known and covers(given.bytes.get(one.source, ()), ((one.position, one.end_position),))


def _is_time(one: Finding) -> bool:
    """In which nobody looked at a folder."""
    return one.kind is Kind.UNKNOWN and one.position < 0


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
        return [Fault(piece, reason=fault.reason, traces=fault.traces) for piece in pieces]
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
        piece, pair=fault.pair, exact=False, count=count, reason=fault.reason, since=fault.since
    )

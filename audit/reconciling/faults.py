"""Faults under judgement: findings without texts, with the data needed to judge them.

An acceptance applies to a fault if all of its conditions do. A fault that is accepted in part is
cut at the boundary, if its offsets or entries tell where that is.

An acceptance covers only what had arisen when it was made, as far as reports tell, so that a later
loss is a new finding. What it names it covers at any time: events, bytes and entries of a source,
or times up to `to_time` if a fault has no other name, as hosts with a wrong clock report future
ones. Offsets are not such names: they can be assigned again after a log lost its end.

A landed file is accepted by its name alone. An acceptance of an hour or of the whole topic does not
cover it, as reports do not tell when it was lost.

Adjacent faults are joined: events that follow each other in a file and a partition, and windows
that follow each other in time, if they are accepted alike. So are lost bytes of a file and its
unseen end: one truncation is one fault, from the last time that the file was seen whole. Hours are
judged apart, so an end that was unseen for longer than a day stays a fault of its own.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from audit.reconciling.authors import with_author
from audit.reconciling.findings import FaultKind, Finding
from audit.reconciling.picture import Acceptance
from audit.reconciling.windows import Pair
from ground.intervals import Intervals, covers, has

_LONGEST_UNSEEN: Final = 86_400_000


class Fault(msgspec.Struct):
    """A finding under judgement. `windows` has the numbers of the affected windows. Unless `exact`,
    the given bytes and events include more than those affected."""

    finding: Finding
    pair: Pair | None = None  # the tiers between which it arose
    exact: bool = True
    count: int = 0  # events, at most
    named: int = 0  # entries of a journal, with their first seq in the finding
    reason: str = ""
    harmless: str = ""  # why no operator has to accept it
    since: int = -1  # when it was written, lost or reported; -1: the end of its time, at the latest
    traces: str = ""  # what an unwatched time left behind
    windows: list[int] = []

    def doubt(self, kind: FaultKind, reason: str) -> None:
        """Weakens the fault to this kind, because perhaps only a report is missing."""
        self.finding = replace(self.finding, kind=kind)
        self.reason = reason

    @property
    def has_time(self) -> bool:
        return self.finding.from_time >= 0


def cut(faults: Iterable[Fault], accepted: Sequence[Acceptance]) -> list[Fault]:
    """Cuts faults into pieces that are accepted either as a whole or not at all."""
    pieces: list[Fault] = []
    for fault in faults:
        points = {point for acceptance in accepted for point in _points(acceptance, fault)}
        pieces.extend(_pieces(fault, sorted(points)) if points else [fault])
    return pieces


def why_accepted(fault: Fault, accepted: Sequence[Acceptance]) -> str:
    """Returns the operator who accepted a fault, and the reason; empty if it is not accepted."""
    for acceptance in accepted:
        if _applies(acceptance, fault):
            return with_author(
                acceptance.reason or "accepted", acceptance.operator, acceptance.time
            )
    return ""


def _applies(acceptance: Acceptance, fault: Fault) -> bool:
    finding = fault.finding
    names = acceptance.seqs or acceptance.bytes
    if acceptance.file != finding.landed_file:
        return False
    if not (names or acceptance.file or _had_arisen(fault, acceptance)):
        return False
    if acceptance.kinds and finding.tier not in acceptance.kinds:
        return False
    if acceptance.partition >= 0 and acceptance.partition != finding.partition:
        return False
    if acceptance.offsets and not _by_offsets(acceptance, finding):
        return False
    if names and not (_by_seqs(acceptance, fault) or _by_bytes(acceptance, finding)):
        return False
    if acceptance.host and acceptance.host != finding.host:
        return False
    if acceptance.from_time is not None and finding.from_time < acceptance.from_time:
        return False
    return acceptance.to_time is None or (
        finding.from_time >= 0 and _end(finding) <= acceptance.to_time
    )


def _had_arisen(fault: Fault, acceptance: Acceptance) -> bool:
    if fault.since < 0:
        return acceptance.to_time is not None or _end(fault.finding) <= acceptance.time
    return fault.since <= acceptance.time


def _by_offsets(acceptance: Acceptance, finding: Finding) -> bool:
    offsets = (finding.offset, finding.offset + finding.offsets)
    return finding.offset >= 0 and covers(acceptance.offsets, (offsets,))


def _end(finding: Finding) -> int:
    return max(finding.to_time, finding.from_time + 1)


def _by_seqs(acceptance: Acceptance, fault: Fault) -> bool:
    finding = fault.finding
    count = fault.named or max(finding.events, 0)
    seqs = acceptance.seqs.get(finding.source, ())
    return bool(count) and finding.seq >= 0 and covers(seqs, ((finding.seq, finding.seq + count),))


def _by_bytes(acceptance: Acceptance, finding: Finding) -> bool:
    if finding.kind is FaultKind.UNKNOWN and finding.position >= 0:  # its end is unknown
        return has(acceptance.bytes.get(finding.source, ()), finding.position)
    are_bytes_known = 0 <= finding.position < finding.end_position
    return are_bytes_known and covers(
        acceptance.bytes.get(finding.source, ()), ((finding.position, finding.end_position),)
    )


def _is_time(finding: Finding) -> bool:
    """Whether the finding is about a time in which no agent watched a folder."""
    return finding.kind is FaultKind.UNKNOWN and finding.position < 0 and finding.offset < 0


def _points(acceptance: Acceptance, fault: Fault) -> list[int]:
    """Returns the cuts: numbers of entries or offsets from the fault's beginning, or times."""
    finding = fault.finding
    if _is_time(finding):
        times = (acceptance.from_time, acceptance.to_time)
        return [
            time
            for time in times
            if time is not None and finding.from_time < time < finding.to_time
        ]
    if fault.named:
        return _within(acceptance.seqs.get(finding.source, ()), finding.seq, fault.named)
    if finding.offset < 0 or not fault.count:
        return []
    points: list[int] = []
    if acceptance.partition in (-1, finding.partition):
        points += _within(acceptance.offsets, finding.offset, fault.count)
    if finding.seq >= 0:
        points += _within(acceptance.seqs.get(finding.source, ()), finding.seq, fault.count)
    return points


def _within(accepted: Intervals, first: int, count: int) -> list[int]:
    ends = (end - first for pair in accepted for end in pair)
    return [end for end in ends if 0 < end < count]


def _pieces(fault: Fault, points: Sequence[int]) -> list[Fault]:
    finding = fault.finding
    if _is_time(finding):
        times = zip((finding.from_time, *points), (*points, finding.to_time), strict=True)
        pieces = (replace(finding, from_time=first, to_time=end) for first, end in times)
        return [replace(fault, finding=piece, windows=[]) for piece in pieces]
    size = fault.named or fault.count
    return [
        _piece(fault, first, end - first)
        for first, end in zip((0, *points), (*points, size), strict=True)
    ]


def _piece(fault: Fault, skipped: int, count: int) -> Fault:
    finding = fault.finding
    if fault.named:
        entries = replace(finding, seq=finding.seq + skipped)
        return replace(fault, finding=entries, named=count, windows=[])
    piece = replace(
        finding,
        seq=finding.seq + skipped if finding.seq >= 0 else -1,
        events=count if finding.events >= 0 else -1,
        offset=finding.offset + skipped,
        offsets=count,
    )
    return replace(fault, finding=piece, exact=False, count=count, windows=[])


def joined(faults: Iterable[Fault]) -> list[Fault]:
    """Joins adjacent faults that have the same acceptance."""
    file_faults: list[Fault] = []
    window_faults: list[Fault] = []
    other_faults: list[Fault] = []
    for fault in faults:
        finding = fault.finding
        if finding.source and finding.partition >= 0:
            file_faults.append(fault)
        elif finding.source or finding.path or finding.partition >= 0:
            other_faults.append(fault)
        else:
            window_faults.append(fault)
    return [*_of_files(file_faults), *_of_windows(window_faults), *_with_ends(other_faults)]


def _of_files(faults: list[Fault]) -> list[Fault]:
    joined_faults: list[Fault] = []
    for fault in sorted(faults, key=_offset_of):
        if joined_faults and _follows(joined_faults[-1], fault):
            _add(joined_faults[-1], fault)
        else:
            joined_faults.append(fault)
    return joined_faults


def _offset_of(fault: Fault) -> tuple[str, ...]:
    finding = fault.finding
    return (
        finding.source,
        finding.tier,
        finding.destination,
        finding.kind,
        f"{finding.partition:09}{finding.offset:020}",
    )


def _follows(before: Fault, fault: Fault) -> bool:
    finding, next_finding = before.finding, fault.finding
    return (
        before.exact
        and fault.exact
        and before.reason == fault.reason
        and (finding.accepted, finding.harmless) == (next_finding.accepted, next_finding.harmless)
        and (finding.source, finding.tier, finding.destination, finding.kind, finding.partition)
        == (
            next_finding.source,
            next_finding.tier,
            next_finding.destination,
            next_finding.kind,
            next_finding.partition,
        )
        and (finding.offset + finding.offsets, finding.seq + finding.events, finding.end_position)
        == (next_finding.offset, next_finding.seq, next_finding.position)
    )


def _add(before: Fault, fault: Fault) -> None:
    finding, next_finding = before.finding, fault.finding
    before.finding = replace(
        finding,
        events=finding.events + next_finding.events,
        offsets=finding.offsets + next_finding.offsets,
        end_position=next_finding.end_position,
        from_time=min(finding.from_time, next_finding.from_time),
        to_time=max(finding.to_time, next_finding.to_time),
    )
    before.count += fault.count
    before.windows += fault.windows


def _of_windows(faults: list[Fault]) -> list[Fault]:
    joined_faults: list[Fault] = []
    last_faults: dict[tuple[str, ...], Fault] = {}
    for fault in sorted(faults, key=lambda fault: fault.finding.from_time):
        finding = fault.finding
        reasons = (fault.reason, finding.accepted, finding.harmless)
        key = (finding.kind, finding.tier, finding.destination, *reasons)
        last_fault = last_faults.get(key)
        if last_fault is not None and last_fault.finding.to_time == finding.from_time:
            events = last_fault.finding.events + finding.events
            last_fault.finding = replace(last_fault.finding, events=events, to_time=finding.to_time)
            last_fault.windows += fault.windows
        else:
            joined_faults.append(fault)
            last_faults[key] = fault
    return joined_faults


def _with_ends(faults: Sequence[Fault]) -> list[Fault]:
    """Joins losses of files with the unseen ends of these."""
    losses = {
        (finding.host, finding.source, finding.end_position, finding.accepted): fault
        for fault in faults
        if (finding := fault.finding).kind is FaultKind.LOST and finding.bytes > 0
    }
    remaining_faults: list[Fault] = []
    for fault in faults:
        file_end = fault.finding
        loss = losses.get((file_end.host, file_end.source, file_end.position, file_end.accepted))
        is_end = file_end.kind is FaultKind.UNKNOWN and not file_end.harmless
        if loss is None or not is_end or file_end.to_time - file_end.from_time > _LONGEST_UNSEEN:
            remaining_faults.append(fault)
            continue
        loss.finding = replace(
            loss.finding,
            unseen_end=True,
            from_time=min(loss.finding.from_time, file_end.from_time),
            to_time=max(loss.finding.to_time, file_end.to_time),
        )
        loss.reason = "; ".join(filter(None, (loss.reason, fault.reason)))
        loss.windows += fault.windows
    return remaining_faults

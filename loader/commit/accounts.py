"""The accounts of a run's slices, put together by partition: every offset, once. Pure.

A slice accounts for what lies from its first batch on. What lies before, the slice before it has:
a batch that reaches into it, or a hole that both have looked at. So slices that follow on each
other must meet; where they do not, nobody knows what was there, and nothing may be committed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from loader.errors import Mismatch
from loader.reports import Account, SliceReport
from loader.tables import Slice

Log = tuple[str, str, int]  # cluster, topic, partition


def log_of(piece: Slice) -> Log:
    return piece.cluster, piece.topic, piece.partition


def by_log(slices: Iterable[Slice]) -> dict[Log, list[Slice]]:
    """In the order of their offsets."""
    found: dict[Log, list[Slice]] = defaultdict(list)
    for piece in sorted(slices, key=lambda each: each.first):
        found[log_of(piece)].append(piece)
    return dict(sorted(found.items()))


def accounts_of(pieces: Sequence[Slice], reports: Mapping[int, SliceReport]) -> list[Account]:
    """Of the slices of one partition, in the order of their offsets: from the first offset to where
    the last one has read. Raises Mismatch if something of it is nobody's, or two slices'."""
    found: list[Account] = []
    reached = pieces[0].first
    for piece in pieces:
        report = reports[piece.number]
        found += _followed(piece, report, reached)
        reached = max(reached, report.next_offset)
    return found


def _followed(piece: Slice, report: SliceReport, reached: int) -> list[Account]:
    """A slice's accounts, from where those before it end."""
    if report.begins < reached and report.accounts:
        raise _odd(piece, report.begins, reached, "two slices have both read them")
    hole = (reached, report.begins - 1)
    accounts = list(report.accounts)
    if hole[1] < hole[0]:
        return accounts
    if report.begins - report.leads > reached:
        raise _odd(piece, reached, report.begins, "no slice has read them")
    compacted, missing = (0, (hole,)) if report.gives_up else (hole[1] - hole[0] + 1, ())
    if not accounts:
        return [
            Account(
                leader_epoch=report.leader_epoch,
                first=reached,
                next_offset=report.begins,
                compacted=compacted,
                missing=missing,
            )
        ]
    first = accounts[0]
    accounts[0] = msgspec.structs.replace(
        first,
        first=reached,
        compacted=first.compacted + compacted,
        missing=(*missing, *first.missing),
    )
    return accounts


def _odd(piece: Slice, first: int, end: int, what: str) -> Mismatch:
    return Mismatch(
        f"{piece.log}, offsets {first} to {end - 1}: {what}, and nothing was committed. The log has"
        " changed while it was read: load again"
    )

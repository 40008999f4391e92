"""Joins the accounts of a partition's slices, so that each offset is accounted for once, and turns
them into passages for the ledger. Pure.

A slice accounts for offsets from its first batch on. Earlier offsets belong to the slice before it:
a batch that reaches into this slice, or a gap that both have seen. So consecutive slices must meet;
where they do not, it is unknown what the log held, and nothing may be committed.

A passage covers one leader epoch, and accounts for each of its offsets. Batches with duplicates get
passages of their own, which shows where the duplicates are.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ground.intervals import union
from loader.commit.sources import LandedSources
from loader.errors import Mismatch
from loader.values.manifests import HourState, Passage
from loader.values.reports import (
    Account,
    ClosedIntervals,
    LandedWindow,
    SliceReport,
    closed,
    half_open,
)
from loader.values.tables import Hour, Slice, hour_of, log_name

Log = tuple[str, str, int]  # cluster, topic, partition


def log_of(piece: Slice) -> Log:
    return piece.cluster, piece.topic, piece.partition


def by_log(slices: Iterable[Slice]) -> dict[Log, list[Slice]]:
    """The slices of each partition, in the order of their offsets."""
    slices_by_log: dict[Log, list[Slice]] = defaultdict(list)
    for piece in sorted(slices, key=lambda piece: piece.first):
        slices_by_log[log_of(piece)].append(piece)
    return dict(sorted(slices_by_log.items()))


def accounts_of(pieces: Sequence[Slice], reports: Mapping[int, SliceReport]) -> list[Account]:
    """Joins the accounts of one partition's slices, which are in order of offsets.

    They reach from the first offset to where the last slice stopped. Raises Mismatch if offsets
    belong to no slice, or to two.
    """
    accounts: list[Account] = []
    next_offset = pieces[0].first
    for piece in pieces:
        report = reports[piece.number]
        accounts += _continued(piece, report, next_offset)
        next_offset = max(next_offset, report.next_offset)
    return accounts


def _continued(piece: Slice, report: SliceReport, reached: int) -> list[Account]:
    """A slice's accounts, starting where those before it end."""
    if report.begins < reached and report.accounts:
        raise _broken_sequence(piece, report.begins, reached, "were read by two slices")
    missing_range = (reached, report.begins - 1)
    accounts = list(report.accounts)
    if missing_range[1] < missing_range[0]:
        return accounts
    if report.begins - report.leads > reached:
        raise _broken_sequence(piece, reached, report.begins, "were read by no slice")
    compacted_count, missing_offsets = (
        (0, (missing_range,)) if report.gives_up else (missing_range[1] - missing_range[0] + 1, ())
    )
    if not accounts:
        return [
            Account(
                leader_epoch=report.leader_epoch,
                first=reached,
                next_offset=report.begins,
                compacted=compacted_count,
                missing=missing_offsets,
            )
        ]
    first = accounts[0]
    accounts[0] = msgspec.structs.replace(
        first,
        first=reached,
        compacted=first.compacted + compacted_count,
        missing=(*missing_offsets, *first.missing),
    )
    return accounts


def _broken_sequence(piece: Slice, first: int, end: int, what: str) -> Mismatch:
    return Mismatch(
        f"{piece.log}: offsets {first} to {end - 1} {what}; nothing was committed. The log changed"
        " while it was being read: load again"
    )


def is_complete(hour: HourState | None) -> bool:
    return hour is not None and hour.complete >= 0


def passages(
    slices: Iterable[Slice],
    reports: Mapping[int, SliceReport],
    sources: LandedSources,
    hours: Mapping[Hour, HourState],
) -> tuple[Passage, ...]:
    """The passages of a run, by partition. `hours` is the state of hours before the run, which
    decides which rows are late. Raises Mismatch if an offset is not accounted for."""
    new_passages: list[Passage] = []
    for pieces in by_log(slices).values():
        accounts = _joined(accounts_of(pieces, reports))
        last_indexes = {account.leader_epoch: index for index, account in enumerate(accounts)}
        for index, account in enumerate(accounts):
            epoch = account.leader_epoch
            runs = sources.of(pieces[0].origin, epoch) if index == last_indexes[epoch] else {}
            new_passages.append(_passage(pieces[0], account, runs, hours))
    return tuple(new_passages)


def _joined(accounts: Sequence[Account]) -> list[Account]:
    """Joins neighbouring accounts of one epoch if both have duplicates, or neither has."""
    joined_accounts: list[Account] = []
    for account in accounts:
        if account.first == account.next_offset:
            continue
        if joined_accounts and _can_be_joined(joined_accounts[-1], account):
            joined_accounts[-1] = _sum_of_accounts(joined_accounts[-1], account)
        else:
            joined_accounts.append(account)
    return joined_accounts


def _can_be_joined(a: Account, b: Account) -> bool:
    return (a.leader_epoch, bool(a.duplicates)) == (b.leader_epoch, bool(b.duplicates))


def _sum_of_accounts(first: Account, second: Account) -> Account:
    return Account(
        leader_epoch=first.leader_epoch,
        first=first.first,
        next_offset=second.next_offset,
        rows=first.rows + second.rows,
        duplicates=first.duplicates + second.duplicates,
        dead=first.dead + second.dead,
        other_hours=first.other_hours + second.other_hours,
        markers=first.markers + second.markers,
        aborted=first.aborted + second.aborted,
        compacted=first.compacted + second.compacted,
        missing=closed(union(half_open(first.missing), half_open(second.missing))),
        windows=_windows((*first.windows, *second.windows)),
    )


def _passage(
    piece: Slice,
    account: Account,
    sources: dict[str, ClosedIntervals],
    hours: Mapping[Hour, HourState],
) -> Passage:
    if not account.adds_up:
        last_offset = account.next_offset - 1
        raise Mismatch(
            f"{log_name(piece.topic, piece.partition)}, offsets {account.first} to {last_offset}:"
            " the counts do not add up; nothing was committed: load again"
        )
    return Passage(
        topic=piece.topic,
        topic_id=piece.topic_id,
        cluster=piece.cluster,
        partition=piece.partition,
        first=account.first,
        next_offset=account.next_offset,
        leader_epoch=account.leader_epoch,
        no_events=account.no_events,
        missing=account.missing,
        windows=account.windows,
        late={
            window.start: window.rows
            for window in account.windows
            if window.rows and is_complete(hours.get(hour_of(window.start)))
        },
        sources=sources,
    )


def _windows(windows: Iterable[LandedWindow]) -> tuple[LandedWindow, ...]:
    windows_by_start: dict[int, LandedWindow] = {}
    for window in windows:
        previous = windows_by_start.get(window.start)
        windows_by_start[window.start] = (
            window if previous is None else _sum_of_windows(previous, window)
        )
    return tuple(windows_by_start[start] for start in sorted(windows_by_start))


def _sum_of_windows(first: LandedWindow, second: LandedWindow) -> LandedWindow:
    return LandedWindow(
        start=first.start,
        rows=first.rows + second.rows,
        duplicates=first.duplicates + second.duplicates,
        dead=first.dead + second.dead,
        bytes=first.bytes + second.bytes,
        crc_sum=first.crc_sum + second.crc_sum,
    )

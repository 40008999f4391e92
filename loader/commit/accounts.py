"""What a run read of each partition: the accounts of its slices, put together, every offset once;
and the passages that the ledger will be told. Pure.

A slice accounts for what lies from its first batch on. What lies before, the slice before it has:
a batch that reaches into it, or a hole that both have looked at. So slices that follow on each
other must meet; where they do not, nobody knows what was there, and nothing may be committed.

A passage is of one leader epoch, and says of every offset what was found there. Batches that have
duplicates have passages of their own, so that it is known where they lay.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ground.intervals import union
from loader.commit.sources import LandedSources
from loader.errors import Mismatch
from loader.manifests import HourState, Passage
from loader.reports import Account, ClosedIntervals, LandedWindow, SliceReport, closed, half_open
from loader.tables import Hour, Slice, hour_of, log_name

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


def is_complete(hour: HourState | None) -> bool:
    return hour is not None and hour.complete >= 0


def passages(
    slices: Iterable[Slice],
    reports: Mapping[int, SliceReport],
    sources: LandedSources,
    hours: Mapping[Hour, HourState],
) -> tuple[Passage, ...]:
    """What was read, by partition. `hours` are those before the run: what is late in them. Raises
    Mismatch if not every offset is accounted for."""
    found: list[Passage] = []
    for pieces in by_log(slices).values():
        accounts = _joined(accounts_of(pieces, reports))
        last = {each.leader_epoch: place for place, each in enumerate(accounts)}
        for place, account in enumerate(accounts):
            epoch = account.leader_epoch
            runs = sources.of(pieces[0].origin, epoch) if place == last[epoch] else {}
            found.append(_passage(pieces[0], account, runs, hours))
    return tuple(found)


def _joined(accounts: Sequence[Account]) -> list[Account]:
    """As few as there can be, of one epoch each, with or without duplicates."""
    found: list[Account] = []
    for each in accounts:
        if each.first == each.next_offset:
            continue
        if found and _alike(found[-1], each):
            found[-1] = _both_accounts(found[-1], each)
        else:
            found.append(each)
    return found


def _alike(one: Account, other: Account) -> bool:
    return (one.leader_epoch, bool(one.duplicates)) == (other.leader_epoch, bool(other.duplicates))


def _both_accounts(one: Account, other: Account) -> Account:
    return Account(
        leader_epoch=one.leader_epoch,
        first=one.first,
        next_offset=other.next_offset,
        rows=one.rows + other.rows,
        duplicates=one.duplicates + other.duplicates,
        dead=one.dead + other.dead,
        other_hours=one.other_hours + other.other_hours,
        markers=one.markers + other.markers,
        aborted=one.aborted + other.aborted,
        compacted=one.compacted + other.compacted,
        missing=closed(union(half_open(one.missing), half_open(other.missing))),
        windows=_windows((*one.windows, *other.windows)),
    )


def _passage(
    piece: Slice,
    account: Account,
    sources: dict[str, ClosedIntervals],
    hours: Mapping[Hour, HourState],
) -> Passage:
    if not account.adds_up:
        last = account.next_offset - 1
        raise Mismatch(
            f"{log_name(piece.topic, piece.partition)}, offsets {account.first} to {last}: what was"
            " found does not add up, and nothing was committed: load again"
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
    found: dict[int, LandedWindow] = {}
    for each in windows:
        known = found.get(each.start)
        found[each.start] = each if known is None else _both(known, each)
    return tuple(found[start] for start in sorted(found))


def _both(one: LandedWindow, other: LandedWindow) -> LandedWindow:
    return LandedWindow(
        start=one.start,
        rows=one.rows + other.rows,
        duplicates=one.duplicates + other.duplicates,
        dead=one.dead + other.dead,
        bytes=one.bytes + other.bytes,
        crc_sum=one.crc_sum + other.crc_sum,
    )

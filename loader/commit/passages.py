"""What a run read of each partition, as the ledger will tell it. Pure.

A passage is of one leader epoch, and says of every offset what was found there. Batches that have
duplicates have passages of their own, so that it is known where they lay.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from loader.commit.accounts import accounts_of, by_log
from loader.commit.landed_sources import LandedSources
from loader.errors import Mismatch
from loader.manifests import HourState, Passage
from loader.reports import Account, Intervals, SliceReport, WindowCount
from loader.tables import Hour, Slice, hour_of, log_name


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
        missing=tuple(_touching((*one.missing, *other.missing))),
        windows=_windows((*one.windows, *other.windows)),
    )


def _touching(intervals: Intervals) -> Iterator[tuple[int, int]]:
    """In ascending order, with something between each two."""
    current: tuple[int, int] | None = None
    for first, last in intervals:
        if current is not None and first == current[1] + 1:
            current = (current[0], last)
            continue
        if current is not None:
            yield current
        current = (first, last)
    if current is not None:
        yield current


def _passage(
    piece: Slice,
    account: Account,
    sources: dict[str, Intervals],
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


def _windows(windows: Iterable[WindowCount]) -> tuple[WindowCount, ...]:
    found: dict[int, WindowCount] = {}
    for each in windows:
        known = found.get(each.start)
        found[each.start] = each if known is None else _both(known, each)
    return tuple(found[start] for start in sorted(found))


def _both(one: WindowCount, other: WindowCount) -> WindowCount:
    return WindowCount(
        start=one.start,
        rows=one.rows + other.rows,
        duplicates=one.duplicates + other.duplicates,
        dead=one.dead + other.dead,
        bytes=one.bytes + other.bytes,
        crc_sum=one.crc_sum + other.crc_sum,
    )

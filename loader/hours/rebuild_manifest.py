"""The manifest of a run that replaces hours by what the brokers have of them. Pure.

Nothing is added to an hour: all its files go, and what was read anew takes their place. The hour is
open again, so its markers go first; whoever waits for `_SUCCESS` does not read it half replaced.
It is closed like any other, and its files are merged, by the run that follows.

Where the partitions have been read to stays as it is, and so does what has landed of sources. Dead
letters are written again: those of the runs before stay where they are.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from loader.commit.layout import DEAD
from loader.commit.next_state import added, check_dead, check_duplicates, next_run
from loader.commit.old_hours import faded
from loader.commit.passages import passages
from loader.commit.source_states import after_run
from loader.commit.staging import Staged, check
from loader.errors import GapError, Mismatch
from loader.hours.close_manifest import at_rest
from loader.manifests import VERSION, Added, HourState, Kind, Manifest, Marker, Passage
from loader.markers import INCOMPLETE, LATE, SUCCESS, hour_path, no_marker
from loader.planning.plan import Plan
from loader.reports import SliceReport
from loader.tables import Hour, hour_of


def rebuild_manifest(
    previous: Manifest,
    plan: Plan,
    staged: Staged,
    hours: Collection[Hour],
    *,
    markers: Mapping[Hour, Sequence[str]],
    accept_gap: bool,
    now: int,
    loader: str,
    schema: str,
    dead_share: float,
    few_dead: int,
    duplicate_share: float,
    forget_after: int,
) -> Manifest:
    """What follows on `previous`. `markers` are the names of what lies beside the rows of each
    hour. Times are in milliseconds. `ledger_entries` is still to be filled in.

    What is staged must have been verified. Raises Mismatch if it is not what was planned,
    TooManyDead, TooManyDuplicates, and GapError if less came back of an hour than it had, unless
    that is accepted; that nothing came back never is.
    """
    check(plan.slices, staged)
    reports = [staged.reports[piece.number] for piece in plan.slices]
    _check_hours(previous.table, reports, hours)
    check_dead(previous.table, reports, dead_share, few_dead)
    check_duplicates(previous.table, reports, duplicate_share)
    read = passages(plan.slices, staged.reports, staged.sources, {})
    if not accept_gap:
        _check_all_came_back(previous, read, hours)
    _check_none_is_emptied(previous, reports, hours)
    run = next_run(previous)
    adds = tuple(added(plan.slices, staged, table=previous.table, run=run, now=now))
    dead: Counter[str] = Counter()
    for report in reports:
        dead.update(report.dead)
    return Manifest(
        version=VERSION,
        run=run,
        kind=Kind.REBUILD,
        table=previous.table,
        committed=now,
        loader=loader,
        topics=at_rest(previous.topics),
        adds=adds,
        removes=tuple(_replaced(previous, hours)),
        markers=tuple(_markers_gone(previous.table, hours, markers)),
        passages=read,
        rebuilt=tuple(sorted(hours)),
        dead=dict(dead),
        duplicates=sum(report.duplicates for report in reports),
        hours=faded(_hours(previous, adds, hours, run, now), now),
        sources=after_run(previous.sources, staged.sources, now=now, forget=forget_after),
        schema=schema,
        ledger_seq=previous.ledger_seq + previous.ledger_entries,
    )


def _check_hours(table: str, reports: Sequence[SliceReport], hours: Collection[Hour]) -> None:
    for report in reports:
        odd = report.rows.keys() - set(hours)
        if odd:
            raise Mismatch(
                f"{hour_path(table, min(odd))} is not to be rebuilt, and rows of it were written"
            )


def _check_all_came_back(
    previous: Manifest, read: Sequence[Passage], hours: Collection[Hour]
) -> None:
    """As rows, as duplicates, or as what cannot be decoded any more."""
    came: Counter[Hour] = Counter()
    for window in (window for passage in read for window in passage.windows):
        came[hour_of(window.start)] += window.rows + window.duplicates + window.dead
    for hour in sorted(hours):
        had = previous.hours[hour].rows if hour in previous.hours else 0
        if came[hour] < had:
            raise GapError(
                f"{hour_path(previous.table, hour)}: it has {had:,} rows, and the brokers have"
                f" {came[hour]:,} events of it; nothing was replaced. To rebuild it from those:"
                " --accept-gap"
            )


def _check_none_is_emptied(
    previous: Manifest, reports: Sequence[SliceReport], hours: Collection[Hour]
) -> None:
    came = {hour for report in reports for hour, rows in report.rows.items() if rows}
    emptied = [
        hour_path(previous.table, hour)
        for hour in sorted(hours)
        if hour not in came and hour in previous.hours and previous.hours[hour].rows
    ]
    if emptied:
        raise GapError(
            f"{', '.join(emptied)}: there are rows, and none of them could be read again from the"
            " brokers; nothing was replaced. Who does not want them deletes their files"
        )


def _replaced(previous: Manifest, hours: Collection[Hour]) -> Iterator[str]:
    for hour in sorted(hours):
        if hour in previous.hours:
            yield from previous.hours[hour].files


def _markers_gone(
    table: str, hours: Collection[Hour], there: Mapping[Hour, Sequence[str]]
) -> Iterator[Marker]:
    for hour in sorted(hours):
        for name in sorted(there.get(hour, ())):
            if name in {SUCCESS, INCOMPLETE} or name.startswith(LATE):
                yield no_marker(table, hour, name)


def _hours(
    previous: Manifest, adds: Sequence[Added], rebuilt: Collection[Hour], run: int, now: int
) -> dict[Hour, HourState]:
    """An hour that has no rows any more is still one that was loaded, and is to be closed."""
    by_hour: defaultdict[Hour, list[Added]] = defaultdict(list)
    for each in adds:
        if not each.path.startswith(f"{DEAD}/"):
            by_hour[each.hour].append(each)
    empty = HourState(rows=0, files=(), changed=run, at=now)
    hours = {hour: empty if hour in rebuilt else state for hour, state in previous.hours.items()}
    for hour, files in sorted(by_hour.items()):
        hours[hour] = HourState(
            rows=sum(file.rows for file in files),
            files=tuple(file.path for file in files),
            bytes=sum(file.bytes for file in files),
            changed=run,
            at=now,
        )
    return hours

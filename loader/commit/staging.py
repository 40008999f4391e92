"""What a job has staged: reports and files, each found where it belongs, none too many.

    {directory}/kind=rows/slice=3/dt=2026-11-20/hour=07/part-….txt

A job that has ended well may still have left too much: a task that was tried twice under a commit
protocol that does not sort this out. So a run is only committed if every slice has one report, and
just the files that it names. What they hold is counted, and has to agree as well.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from ground.intervals import Intervals, union
from loader.commit.accounts import accounts_of, by_log
from loader.commit.sources import LandedSources
from loader.errors import Mismatch
from loader.landing.pieces import PIECE_END, FileKind
from loader.parallel import in_parallel
from loader.reports import SliceReport, half_open
from loader.store.store import Entry, Store
from loader.tables import Hour, Slice, hour_in_folder, hour_of

MOST_REPORT_BYTES: Final = 256 * 1024 * 1024
READERS: Final = 8
REPORTS_AT_ONCE: Final = 32  # in memory as they are
# Made here, and not by the first who needs it: threads that make it at once crash in msgspec.
_REPORTS: Final = msgspec.json.Decoder(SliceReport)

_Key = tuple[FileKind, int, Hour | None]

_FOLDERS: Final = re.compile(
    r"(?:kind=(?P<kind>[a-z]+)/)?slice=(?P<slice>\d+)/(?P<hour>dt=[^/]+/hour=[^/]+)"
)
_SUFFIX: Final = re.compile(r"\.c\d+(\.[A-Za-z0-9.]+)$")


class StagedFile(msgspec.Struct, frozen=True):
    """One file. Paths are relative to the root."""

    kind: FileKind
    slice: int
    hour: Hour | None  # None: it is of no hour, or of several
    path: str
    bytes: int
    suffix: str = ".parquet"
    rows: int = -1  # as counted in the file itself; -1: not counted yet


class Staged(msgspec.Struct, frozen=True):
    """All that a job has left."""

    reports: Mapping[int, SliceReport]  # by slice; without their sources
    files: tuple[StagedFile, ...]  # without the reports
    sources: LandedSources = msgspec.field(default_factory=LandedSources)  # of all reports


def staged(store: Store, directory: str, sources: LandedSources) -> Staged:
    """What a landing job has left, with its sources added to those. Raises Mismatch for what is no
    report, or there twice."""
    said: dict[int, Entry] = {}
    files = []
    for entry, found in _found(store, directory):
        try:
            kind, number = FileKind(found["kind"]), int(found["slice"])
        except ValueError:
            raise Mismatch(f"{entry.path}: nothing of a load") from None
        if kind is not FileKind.REPORT:
            files.append(StagedFile(kind, number, _hour(found["hour"]), entry.path, entry.size))
            continue
        if number in said:
            raise Mismatch(f"{directory}: slice {number} has two reports")
        said[number] = entry
    twice = [each for each, n in Counter((f.kind, f.slice, f.hour) for f in files).items() if n > 1]
    if twice:
        kind, number, _ = twice[0]
        raise Mismatch(f"{directory}: slice {number} has two files of {kind} where one belongs")
    return Staged(_reports(store, said, sources), tuple(files), sources)


def reshaped(before: Staged, kinds: Iterable[FileKind], store: Store, directory: str) -> Staged:
    """All files of these kinds became others, with rows, in slice=…/dt=…/hour=… of a directory."""
    gone = set(kinds)
    files = [file for file in before.files if file.kind not in gone]
    for entry, found in _found(store, directory):
        suffix = _SUFFIX.search(entry.name)
        files.append(
            StagedFile(
                FileKind.ROWS,
                int(found["slice"]),
                _hour(found["hour"]),
                entry.path,
                entry.size,
                suffix[1] if suffix else "",
            )
        )
    return replace(before, files=tuple(files))


def read_again(before: Staged, again: Staged) -> Staged:
    """Some slices have been landed once more: what they left before is nothing."""
    kept = tuple(file for file in before.files if file.slice not in again.reports)
    return replace(before, reports={**before.reports, **again.reports}, files=(*kept, *again.files))


def check(planned: Sequence[Slice], left: Staged, *, some_hours: bool = False) -> None:
    """Raises Mismatch unless every slice has its report, and the files it names, and no others.

    Slices of one partition must meet. Rows of mixed hours must have been divided. With
    `some_hours`, only those were to be landed.
    """
    numbers = {piece.number for piece in planned}
    if numbers != left.reports.keys():
        odd = sorted(numbers ^ left.reports.keys())
        raise Mismatch(f"{len(left.reports)} of {len(numbers)} slices reported; look at {odd[:5]}")
    for piece in planned:
        _check_report(piece, left.reports[piece.number], some_hours)
    for pieces in by_log(planned).values():
        accounts_of(pieces, left.reports)
    _check_files(left)


def verified(counts: Mapping[str, int], left: Staged) -> Staged:
    """The same with rows as counted, by path. Raises Mismatch unless the reports say just that."""
    held: Counter[_Key] = Counter()
    for file in left.files:
        if file.path not in counts:
            raise Mismatch(f"{file.path} was not counted")
        held[file.kind, file.slice, file.hour] += counts[file.path]
    for number, report in left.reports.items():
        said: dict[_Key, int] = {
            (FileKind.ROWS, number, hour): rows for hour, rows in report.rows.items()
        }
        said[FileKind.DEAD, number, None] = report.letters
        for (kind, _, hour), rows in said.items():
            if held[kind, number, hour] != rows:
                raise Mismatch(
                    f"{report.topic}-{report.partition}, offsets {report.first:,} to"
                    f" {report.next_offset - 1:,}: {rows:,} {kind} were written, and"
                    f" {held[kind, number, hour]:,} are in the files"
                )
    return replace(left, files=tuple(replace(file, rows=counts[file.path]) for file in left.files))


def sources_of(store: Store, directories: Iterable[str]) -> Mapping[int, Mapping[str, Intervals]]:
    """What each slice has landed, by source, as its newest report says. Of a later directory, the
    reports take the place of those of the earlier ones."""
    found: dict[int, Mapping[str, Intervals]] = {}
    for directory in directories:
        for entry, names in _found(store, directory):
            if names["kind"] == FileKind.REPORT:
                landed: dict[str, Intervals] = {}
                for run in _report(store, entry, int(names["slice"])).sources:
                    landed[run.source] = union(landed.get(run.source, ()), half_open(run.intervals))
                found[int(names["slice"])] = landed
    return found


def not_remembered(left: Staged) -> Iterator[str]:
    """Whose events are rows as often as the log has them, in words."""
    scattered = left.sources.scattered
    if scattered:
        yield (
            f"events of {len(scattered)} sources, such as {min(scattered)}, are numbered too wildly"
            " to remember which have landed: those that the log has twice are there twice"
        )
    untracked = sum(report.untracked for report in left.reports.values())
    if untracked:
        yield (
            f"{untracked:,} rows are of more sources than a task can remember: those that the log"
            " has twice are there twice; lower `tasks.records`"
        )


def _found(store: Store, directory: str) -> Iterable[tuple[Entry, Mapping[str, str]]]:
    """The files of a job, with what their folders say."""
    for entry in store.list_recursively(directory):
        if entry.name.startswith(("_", ".")):
            continue  # Spark's own
        folder = entry.path.removeprefix(f"{directory}/").rpartition("/")[0]
        found = _FOLDERS.fullmatch(folder)
        if found is None:
            raise Mismatch(f"{entry.path}: nothing of a load")
        yield entry, found.groupdict()


def _hour(folder: str) -> Hour | None:
    try:
        return hour_in_folder(folder)
    except ValueError:
        return None


def _reports(
    store: Store, said: Mapping[int, Entry], sources: LandedSources
) -> dict[int, SliceReport]:
    """Read several at a time. Only a few of them are in memory with their sources."""
    reports = {}
    entries = sorted(said.items())
    for at in range(0, len(entries), REPORTS_AT_ONCE):
        some = entries[at : at + REPORTS_AT_ONCE]
        for report in in_parallel(
            lambda each: _report(store, each[1], each[0]), some, threads=READERS
        ):
            sources.add(report)
            reports[report.slice] = msgspec.structs.replace(report, sources=(), scattered=())
    return reports


def _report(store: Store, entry: Entry, number: int) -> SliceReport:
    data = store.read(entry.path, MOST_REPORT_BYTES)
    try:
        text = (data or b"").removesuffix(PIECE_END.encode())
        report = _REPORTS.decode(text)
    except msgspec.MsgspecError as error:
        raise Mismatch(f"{entry.path} is no report: {error}") from error
    if report.slice != number:
        raise Mismatch(f"{entry.path} is the report of slice {report.slice}")
    return report


def _check_report(piece: Slice, report: SliceReport, some_hours: bool) -> None:
    """Its numbers add up, and it is about the slice."""
    rows: Counter[Hour] = Counter()
    windows = [window for account in report.accounts for window in account.windows]
    for window in windows:
        rows[hour_of(window.start)] += window.rows
    dead = sum(window.dead for window in windows)
    agrees = (
        (report.topic, report.partition, report.first)
        == (piece.topic, piece.partition, piece.first)
        and report.next_offset >= piece.end
        and report.begins - report.leads >= piece.first
        and _is_whole(report)
        and sum(account.rows for account in report.accounts) == report.row_count
        and +rows == +Counter(report.rows)
        and sum(window.duplicates for window in windows) == report.duplicates
        and sum(account.dead for account in report.accounts) == report.dead_count
        and (dead == report.dead_count or (some_hours and dead < report.dead_count))
    )
    if not agrees:
        raise Mismatch(
            f"{piece.log}, offsets {piece.first} to {report.next_offset - 1}: the report of slice"
            f" {piece.number} does not add up: {report.row_count:,} rows, {report.duplicates:,}"
            f" duplicates, {report.dead_count:,} dead letters and {report.no_events:,} offsets"
            " without events; nothing was committed. Load again; if it stays like that, report it"
        )


def _is_whole(report: SliceReport) -> bool:
    """There is something known of every offset from where it begins, and of none twice."""
    reached = report.begins
    for account in report.accounts:
        if account.first != reached or not account.adds_up:
            return False
        reached = account.next_offset
    return reached == report.next_offset


def _check_files(left: Staged) -> None:
    wanted: set[_Key] = {
        (FileKind.ROWS, report.slice, hour)
        for report in left.reports.values()
        for hour, rows in report.rows.items()
        if rows
    }
    wanted |= {
        (FileKind.DEAD, report.slice, None) for report in left.reports.values() if report.dead
    }
    odd = wanted ^ {(file.kind, file.slice, file.hour) for file in left.files}
    if odd:
        kind, number, _ = min(odd, key=str)
        raise Mismatch(f"slice {number}: files of {kind} are missing, or too many")

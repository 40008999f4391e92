"""Finds the reports and files that a job has staged, and checks that they are complete, without
superfluous ones.

    {directory}/kind=rows/slice=3/dt=2026-11-20/hour=07/part-….txt

A successful job may still have left superfluous files: a task that ran twice under a commit
protocol that does not sort this out. So a run is only committed if each slice has one report and
exactly the files that it names. The rows in them are counted, and must agree as well.
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
from loader.landing.pieces import PIECE_END, FileKind, WrittenFile
from loader.store.parallel import in_parallel
from loader.store.store import Entry, Store
from loader.values.reports import SliceReport, half_open
from loader.values.tables import (
    UNKNOWN_DIGEST,
    Digest,
    Hour,
    Slice,
    hour_in_folder,
    hour_of,
)

MOST_REPORT_BYTES: Final = 256 * 1024 * 1024
READERS: Final = 8
REPORTS_AT_ONCE: Final = 32  # in memory with their sources
# Created at import: threads that create it concurrently crash in msgspec.
_REPORTS: Final = msgspec.json.Decoder(SliceReport)

_Key = tuple[FileKind, int, Hour | None]

_FOLDERS: Final = re.compile(
    r"(?:kind=(?P<kind>[a-z]+)/)?slice=(?P<slice>\d+)/(?P<hour>dt=[^/]+/hour=[^/]+)"
)
_SUFFIX: Final = re.compile(r"\.c\d+(\.[A-Za-z0-9.]+)$")


class StagedFile(msgspec.Struct, frozen=True):
    """A staged file. Paths are relative to the root."""

    kind: FileKind
    slice: int
    hour: Hour | None  # None: of no hour, or of several
    path: str
    bytes: int
    suffix: str = ".parquet"
    rows: int = -1  # counted in the file itself; -1: not counted yet
    digest: Digest = UNKNOWN_DIGEST  # by its report


class Staged(msgspec.Struct, frozen=True):
    """All reports and files of a job."""

    reports: Mapping[int, SliceReport]  # by slice; without their sources
    files: tuple[StagedFile, ...]  # without the reports
    sources: LandedSources = msgspec.field(default_factory=LandedSources)  # of all reports


def staged(
    store: Store,
    directory: str,
    sources: LandedSources,
    written: Sequence[WrittenFile] | None = None,
) -> Staged:
    """The results of a landing job; `written` has its files if the driver did it. Adds its sources
    to `sources`. Raises Mismatch for unknown files, and for duplicate reports or files."""
    reports: dict[int, Entry] = {}
    files = []
    if written is None:
        entries = store.list_recursively(directory)
    else:
        entries = [Entry(file.path, False, file.size, 0) for file in written]
    kept_reports = {file.path: file.report for file in written or () if file.report}
    for entry, keys in _matched(directory, entries):
        try:
            kind, number = FileKind(keys["kind"]), int(keys["slice"])
        except ValueError:
            raise Mismatch(f"{entry.path} is not a file of a load") from None
        if kind is not FileKind.REPORT:
            files.append(StagedFile(kind, number, _hour(keys["hour"]), entry.path, entry.size))
            continue
        if number in reports:
            raise Mismatch(f"{directory}: slice {number} has two reports")
        reports[number] = entry
    repeated_keys = [
        key
        for key, count in Counter((file.kind, file.slice, file.hour) for file in files).items()
        if count > 1
    ]
    if repeated_keys:
        kind, number, _ = repeated_keys[0]
        raise Mismatch(f"{directory}: slice {number} has two files of {kind} in one folder")
    decoded_reports = _reports(store, reports, kept_reports, sources)
    return Staged(decoded_reports, _with_digests(files, decoded_reports), sources)


def _with_digests(
    files: Iterable[StagedFile], reports: Mapping[int, SliceReport]
) -> tuple[StagedFile, ...]:
    """The files with the digests in their reports."""

    def digest_of(file: StagedFile) -> Digest:
        report = reports.get(file.slice)
        if report is None:
            return UNKNOWN_DIGEST
        if file.kind is FileKind.DEAD:
            return report.dead_digest
        if file.hour is None:
            return UNKNOWN_DIGEST
        return report.digests.get(file.hour, UNKNOWN_DIGEST)

    return tuple(replace(file, digest=digest_of(file)) for file in files)


def reshaped(before: Staged, kinds: Iterable[FileKind], store: Store, directory: str) -> Staged:
    """The files after a conversion: files with rows in slice=…/dt=…/hour=… of a directory replace
    all files of these kinds."""
    replaced_kinds = set(kinds)
    files = [file for file in before.files if file.kind not in replaced_kinds]
    for entry, keys in _job_files(store, directory):
        suffix = _SUFFIX.search(entry.name)
        files.append(
            StagedFile(
                FileKind.ROWS,
                int(keys["slice"]),
                _hour(keys["hour"]),
                entry.path,
                entry.size,
                suffix[1] if suffix else "",
            )
        )
    return replace(before, files=tuple(files))


def read_again(before: Staged, again: Staged) -> Staged:
    """The results after some slices were landed again: their new results replace the earlier
    ones."""
    kept_files = tuple(file for file in before.files if file.slice not in again.reports)
    return replace(
        before, reports={**before.reports, **again.reports}, files=(*kept_files, *again.files)
    )


def check(planned: Sequence[Slice], results: Staged, *, some_hours: bool = False) -> None:
    """Checks that each slice has its report and exactly the files named there. Raises Mismatch.

    Slices of one partition must meet, and rows of mixed hours must have been divided. With
    `some_hours`, only certain hours were to be landed.
    """
    numbers = {piece.number for piece in planned}
    if numbers != results.reports.keys():
        odd_numbers = sorted(numbers ^ results.reports.keys())
        raise Mismatch(
            f"{len(results.reports)} of {len(numbers)} slices reported; missing or"
            f" unexpected reports: {odd_numbers[:5]}"
        )
    for piece in planned:
        _check_report(piece, results.reports[piece.number], some_hours)
    for pieces in by_log(planned).values():
        accounts_of(pieces, results.reports)
    _check_files(results)


def verified(counts: Mapping[str, int], results: Staged) -> Staged:
    """The results with each file's row count from `counts`, by path. Raises Mismatch if a report
    disagrees with the counts."""
    row_counts: Counter[_Key] = Counter()
    for file in results.files:
        if file.path not in counts:
            raise Mismatch(f"{file.path} was not counted")
        row_counts[file.kind, file.slice, file.hour] += counts[file.path]
    for number, report in results.reports.items():
        reported_counts: dict[_Key, int] = {
            (FileKind.ROWS, number, hour): rows for hour, rows in report.rows.items()
        }
        reported_counts[FileKind.DEAD, number, None] = report.letters
        for (kind, _, hour), rows in reported_counts.items():
            if row_counts[kind, number, hour] != rows:
                raise Mismatch(
                    f"{report.topic}-{report.partition}, offsets {report.first:,} to"
                    f" {report.next_offset - 1:,}: {rows:,} {kind} were written, and"
                    f" {row_counts[kind, number, hour]:,} are in the files"
                )
    files = tuple(replace(file, rows=counts[file.path]) for file in results.files)
    return replace(results, files=files)


def sources_of(store: Store, directories: Iterable[str]) -> Mapping[int, Mapping[str, Intervals]]:
    """The events that each slice landed, by source. Reports in later directories replace earlier
    ones."""
    sources_by_slice: dict[int, Mapping[str, Intervals]] = {}
    for directory in directories:
        for entry, keys in _job_files(store, directory):
            if keys["kind"] == FileKind.REPORT:
                landed_sources: dict[str, Intervals] = {}
                data = store.read(entry.path, MOST_REPORT_BYTES)
                for run in _report(data, entry, int(keys["slice"])).sources:
                    landed_sources[run.source] = union(
                        landed_sources.get(run.source, ()), half_open(run.intervals)
                    )
                sources_by_slice[int(keys["slice"])] = landed_sources
    return sources_by_slice


def memory_warnings(results: Staged) -> Iterator[str]:
    """Warns about sources whose duplicates cannot be recognized."""
    scattered_sources = results.sources.scattered
    if scattered_sources:
        yield (
            f"the numbers of {len(scattered_sources)} sources, such as {min(scattered_sources)},"
            " are too scattered to remember which have landed: events that the log has twice"
            " become two rows"
        )
    untracked_count = sum(report.untracked for report in results.reports.values())
    if untracked_count:
        yield (
            f"{untracked_count:,} rows are of more sources than a task can remember: events that"
            " the log has twice become two rows; lower `tasks.records`"
        )


def _job_files(store: Store, directory: str) -> Iterable[tuple[Entry, Mapping[str, str]]]:
    """The files of a job, with the values in their folders' names."""
    return _matched(directory, store.list_recursively(directory))


def _matched(directory: str, entries: Iterable[Entry]) -> Iterator[tuple[Entry, Mapping[str, str]]]:
    for entry in entries:
        if entry.name.startswith(("_", ".")):
            continue  # Spark's
        folder = entry.path.removeprefix(f"{directory}/").rpartition("/")[0]
        match = _FOLDERS.fullmatch(folder)
        if match is None:
            raise Mismatch(f"{entry.path} is not a file of a load")
        yield entry, match.groupdict()


def _hour(folder: str) -> Hour | None:
    try:
        return hour_in_folder(folder)
    except ValueError:
        return None


def _reports(
    store: Store,
    by_slice: Mapping[int, Entry],
    kept: Mapping[str, bytes],
    sources: LandedSources,
) -> dict[int, SliceReport]:
    """Reads several at a time, unless the driver has kept them; only a few are in memory with their
    sources."""
    reports = {}

    def read(item: tuple[int, Entry]) -> SliceReport:
        number, entry = item
        data = kept.get(entry.path) or store.read(entry.path, MOST_REPORT_BYTES)
        return _report(data, entry, number)

    entries = sorted(by_slice.items())
    for start in range(0, len(entries), REPORTS_AT_ONCE):
        batch = entries[start : start + REPORTS_AT_ONCE]
        for report in in_parallel(read, batch, threads=READERS):
            sources.add(report)
            reports[report.slice] = msgspec.structs.replace(report, sources=(), scattered=())
    return reports


def _report(data: bytes | None, entry: Entry, number: int) -> SliceReport:
    try:
        text = (data or b"").removesuffix(PIECE_END.encode())
        report = _REPORTS.decode(text)
    except msgspec.MsgspecError as error:
        raise Mismatch(f"{entry.path} is not a report: {error}") from error
    if report.slice != number:
        raise Mismatch(f"{entry.path} is the report of slice {report.slice}")
    return report


def _check_report(piece: Slice, report: SliceReport, some_hours: bool) -> None:
    """Checks that the report's numbers add up, and that it is about the slice."""
    rows: Counter[Hour] = Counter()
    windows = [window for account in report.accounts for window in account.windows]
    for window in windows:
        rows[hour_of(window.start)] += window.rows
    dead_count = sum(window.dead for window in windows)
    is_consistent = (
        (report.topic, report.partition, report.first)
        == (piece.topic, piece.partition, piece.first)
        and report.next_offset >= piece.end
        and report.begins - report.leads >= piece.first
        and _is_whole(report)
        and sum(account.rows for account in report.accounts) == report.row_count
        and +rows == +Counter(report.rows)
        and sum(window.duplicates for window in windows) == report.duplicates
        and sum(account.dead for account in report.accounts) == report.dead_count
        and (dead_count == report.dead_count or (some_hours and dead_count < report.dead_count))
    )
    if not is_consistent:
        raise Mismatch(
            f"{piece.log}, offsets {piece.first} to {report.next_offset - 1}: the report of slice"
            f" {piece.number} does not add up: {report.row_count:,} rows, {report.duplicates:,}"
            f" duplicates, {report.dead_count:,} dead letters and {report.no_events:,} offsets"
            " without events; nothing was committed. Load again; if it happens again, report it"
        )


def _is_whole(report: SliceReport) -> bool:
    """Whether the report accounts for each offset from its beginning exactly once."""
    next_offset = report.begins
    for account in report.accounts:
        if account.first != next_offset or not account.adds_up:
            return False
        next_offset = account.next_offset
    return next_offset == report.next_offset


def _check_files(results: Staged) -> None:
    expected_keys: set[_Key] = {
        (FileKind.ROWS, report.slice, hour)
        for report in results.reports.values()
        for hour, rows in report.rows.items()
        if rows
    }
    expected_keys |= {
        (FileKind.DEAD, report.slice, None) for report in results.reports.values() if report.dead
    }
    odd_keys = expected_keys ^ {(file.kind, file.slice, file.hour) for file in results.files}
    if odd_keys:
        kind, number, _ = min(odd_keys, key=str)
        raise Mismatch(f"slice {number}: files of {kind} are missing or superfluous")

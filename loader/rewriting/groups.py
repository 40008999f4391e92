"""Groups the files of a rewrite by the file that replaces them, and verifies that new files have as
many rows. New files have the table's columns, so files with other columns can be in one group.
"""

import heapq
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from loader.errors import Mismatch
from loader.landing.pieces import PIECE_END, FileKind, WrittenFile
from loader.rewriting.row_format import RowFormat
from loader.store.parallel import in_parallel
from loader.store.store import Entry, Store
from loader.values.rewrites import Rewrite, Rewritten, RewrittenFile
from loader.values.tables import UNKNOWN_DIGEST, Digest, hour_folder

_NUMBER: Final = re.compile(r"/(?:kind=rows/slice|merged_*)=(\d+)/")
_REPORT: Final = re.compile(rf"/kind={FileKind.REPORT}/slice=(\d+)/")
_READERS: Final = 8  # reports that are read at a time
_MOST_BYTES: Final = 1024  # of a report


class Footer(msgspec.Struct, frozen=True):
    """A file's footer. Files with equal `columns` have the same columns."""

    columns: str = ""
    rows: int | None = None  # None: not in the footer
    row_groups: int = 1


def grouped(sizes: Mapping[str, int], wanted: int) -> list[list[str]]:
    """Divides the files into this many groups of about equal size. No group is empty."""
    groups: list[list[str]] = [[] for _ in range(min(wanted, len(sizes)))]
    group_heap = [(0, index) for index in range(len(groups))]
    for path in sorted(sizes, key=lambda path: (-sizes[path], path)):
        filled_bytes, index = heapq.heappop(group_heap)
        groups[index].append(path)
        heapq.heappush(group_heap, (filled_bytes + sizes[path], index))
    return [sorted(group) for group in groups]


class Group(msgspec.Struct, frozen=True):
    """Files that one file replaces. Paths are relative to the root."""

    number: int
    rewrite: Rewrite
    files: tuple[str, ...]
    columns: str  # of all files; empty: unknown, or they differ
    is_converted: bool  # whether files do not have the table's columns
    row_groups: int
    size: int  # bytes
    largest: int  # the size of the largest file


def groups_of(
    rewrites: Iterable[Rewrite],
    sizes: Mapping[str, int],
    footers: Mapping[str, Footer],
    table_columns: Container[str],
) -> list[Group]:
    """The groups of files. Footers with `columns` in `table_columns` are of files with the columns
    of the table."""
    groups: list[Group] = []
    for rewrite in rewrites:
        sizes_by_path = {path: sizes[path] for path in rewrite.files}
        for files in grouped(sizes_by_path, rewrite.files_wanted):
            columns = {footers[path].columns for path in files}
            groups.append(
                Group(
                    len(groups),
                    rewrite,
                    tuple(files),
                    columns=min(columns) if len(columns) == 1 else "",
                    is_converted=not all(text in table_columns for text in columns),
                    row_groups=sum(footers[path].row_groups for path in files),
                    size=sum(sizes[path] for path in files),
                    largest=max(sizes[path] for path in files),
                )
            )
    return groups


class NewFile(msgspec.Struct, frozen=True):
    """The file of a group."""

    entry: Entry
    digest: Digest  # unknown if Spark wrote it


def new_files_of(
    store: Store,
    directory: str,
    groups: Sequence[Group],
    files: Iterable[Entry],
    written: Iterable[WrittenFile] = (),
) -> list[NewFile]:
    """The file of each group, in the order of the groups, of all files below the directory.
    `written` has the reports that the driver keeps. Raises Mismatch."""
    entries_by_number: dict[int, Entry] = {}
    report_paths: list[str] = []
    for entry in files:
        if entry.name.startswith(("_", ".")):
            continue  # Spark's
        if _REPORT.search(entry.path):
            report_paths.append(entry.path)
            continue
        number = _NUMBER.search(entry.path)
        if number is None or entries_by_number.setdefault(int(number[1]), entry) is not entry:
            raise Mismatch(f"{entry.path} was not written by this rewrite")
    if entries_by_number.keys() != set(range(len(groups))):
        raise Mismatch(
            f"{directory}: rewritten to {len(entries_by_number)} files instead of {len(groups)}"
        )
    contents = in_parallel(
        lambda path: store.read(path, _MOST_BYTES) or b"", report_paths, threads=_READERS
    )
    reports = dict(zip(report_paths, contents, strict=True))
    reports |= {file.path: file.report for file in written if file.report}
    digests = {_number_in(path): _digest_in(path, report) for path, report in reports.items()}
    return [
        NewFile(entries_by_number[number], digests.get(number, UNKNOWN_DIGEST))
        for number in range(len(groups))
    ]


def _number_in(path: str) -> int:
    match = _REPORT.search(path)
    return -1 if match is None else int(match[1])


def _digest_in(path: str, report: bytes) -> Digest:
    try:
        return Digest(bytes.fromhex(report.removesuffix(PIECE_END.encode()).decode()))
    except ValueError:
        raise Mismatch(f"{path} is not the report of a rewrite") from None


def verified(
    groups: Sequence[Group],
    new_files: Sequence[NewFile],
    rows_in_file: Callable[[str], int],
    target: RowFormat,
) -> tuple[Rewritten, ...]:
    """The rewrites, if each new file has as many rows as the old ones. `rows` are by path. Raises
    Mismatch."""
    files_by_rewrite: dict[Rewrite, list[RewrittenFile]] = {}
    for group, new_file in zip(groups, new_files, strict=True):
        entry = new_file.entry
        rows_before, rows_after = sum(map(rows_in_file, group.files)), rows_in_file(entry.path)
        if rows_before != rows_after:
            raise Mismatch(
                f"{hour_folder(group.rewrite.hour)}: {len(group.files)} files have {rows_before:,}"
                f" rows, but the new file has {rows_after:,}"
            )
        suffix = _suffix(entry, target)
        file = RewrittenFile(entry.path, rows_after, entry.size, suffix, new_file.digest)
        files_by_rewrite.setdefault(group.rewrite, []).append(file)
    return tuple(Rewritten(rewrite, tuple(files)) for rewrite, files in files_by_rewrite.items())


def _suffix(entry: Entry, target: RowFormat) -> str:
    """The suffix for the final name; Spark names pieces and lines as text."""
    suffix = entry.name.partition(".c000.")[2]
    return "." + re.sub(r"^txt", target.format.value, suffix)

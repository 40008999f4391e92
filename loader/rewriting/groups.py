"""Groups the files of a rewrite by the file that replaces them, and verifies that new files have as
many rows. New files have the table's columns, so files with other columns can be in one group.
"""

import heapq
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from loader.errors import Mismatch
from loader.rewriting.row_format import RowFormat
from loader.store.store import Entry
from loader.values.rewrites import Rewrite, Rewritten, RewrittenFile
from loader.values.tables import hour_folder

_NUMBER: Final = re.compile(r"/(?:kind=rows/slice|merged_*)=(\d+)/")


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


def entries_of(files: Iterable[Entry], directory: str, groups: Sequence[Group]) -> list[Entry]:
    """The file of each group, in the order of the groups, of all files below the directory. Raises
    Mismatch."""
    entries_by_number: dict[int, Entry] = {}
    for entry in files:
        if entry.name.startswith(("_", ".")):
            continue  # Spark's
        number = _NUMBER.search(entry.path)
        if number is None or entries_by_number.setdefault(int(number[1]), entry) is not entry:
            raise Mismatch(f"{entry.path} was not written by this rewrite")
    if entries_by_number.keys() != set(range(len(groups))):
        raise Mismatch(
            f"{directory}: rewritten to {len(entries_by_number)} files instead of {len(groups)}"
        )
    return [entries_by_number[number] for number in range(len(groups))]


def verified(
    groups: Sequence[Group],
    entries: Sequence[Entry],
    rows_in_file: Callable[[str], int],
    target: RowFormat,
) -> tuple[Rewritten, ...]:
    """The rewrites, if each new file has as many rows as the old ones. `rows` are by path. Raises
    Mismatch."""
    files_by_rewrite: dict[Rewrite, list[RewrittenFile]] = {}
    for group, entry in zip(groups, entries, strict=True):
        rows_before, rows_after = sum(map(rows_in_file, group.files)), rows_in_file(entry.path)
        if rows_before != rows_after:
            raise Mismatch(
                f"{hour_folder(group.rewrite.hour)}: {len(group.files)} files have {rows_before:,}"
                f" rows, but the new file has {rows_after:,}"
            )
        file = RewrittenFile(entry.path, rows_after, entry.size, _suffix(entry, target))
        files_by_rewrite.setdefault(group.rewrite, []).append(file)
    return tuple(Rewritten(rewrite, tuple(files)) for rewrite, files in files_by_rewrite.items())


def _suffix(entry: Entry, target: RowFormat) -> str:
    """The suffix for the final name; Spark names pieces and lines as text."""
    suffix = entry.name.partition(".c000.")[2]
    return "." + re.sub(r"^txt", target.format.value, suffix)

"""Groups an hour's small files for merging, and verifies that merged files have the same rows. Only
files with the same columns are merged, so that no value is lost, even if the table's schema has
changed meanwhile. A file with unique columns stays as it is.
"""

import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from loader.errors import Mismatch
from loader.hours.closing import Merge, Merged, MergedFile
from loader.rewriting.row_format import RowFormat
from loader.store.store import Entry, Store
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
    """Files that are merged into one. Paths are relative to the root."""

    number: int
    merge: Merge
    files: tuple[str, ...]
    columns: str
    row_groups: int
    size: int  # bytes
    largest: int  # the size of the largest file


def groups_of(
    merges: Iterable[Merge],
    sizes: Mapping[str, int],
    footers: Mapping[str, Footer],
    *,
    first: int = 0,
) -> list[Group]:
    """The groups of files to merge, numbered from `first` on. The `merge` of each group lists only
    those files of the hour that can be merged."""
    groups: list[Group] = []
    for merge in merges:
        parts = list(_mergeable(merge, sizes, footers))
        files = tuple(sorted(path for part in parts for path in part))
        mergeable = replace(
            merge, files=files, bytes=sum(map(sizes.__getitem__, files)), files_wanted=len(parts)
        )
        for part in parts:
            groups.append(_group(first + len(groups), mergeable, part, sizes, footers))
    return groups


def _mergeable(
    merge: Merge, sizes: Mapping[str, int], footers: Mapping[str, Footer]
) -> Iterator[list[str]]:
    sizes_by_columns: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for path in merge.files:
        sizes_by_columns[footers[path].columns][path] = sizes[path]
    for _, sizes_by_path in sorted(sizes_by_columns.items()):
        share = merge.files_wanted * sum(sizes_by_path.values())
        count = max(1, -(-share // max(merge.bytes, 1)))
        if count < len(sizes_by_path):
            yield from grouped(sizes_by_path, count)


def _group(
    number: int,
    merge: Merge,
    files: list[str],
    sizes: Mapping[str, int],
    footers: Mapping[str, Footer],
) -> Group:
    return Group(
        number,
        merge,
        tuple(files),
        columns=footers[files[0]].columns,
        row_groups=sum(footers[path].row_groups for path in files),
        size=sum(sizes[path] for path in files),
        largest=max(sizes[path] for path in files),
    )


def entries_of(store: Store, directory: str, groups: Sequence[Group]) -> list[Entry]:
    """The file of each group, in the order of the groups. Raises Mismatch."""
    entries_by_number: dict[int, Entry] = {}
    for entry in store.list_recursively(directory):
        if entry.name.startswith(("_", ".")):
            continue  # Spark's
        number = _NUMBER.search(entry.path)
        if number is None or entries_by_number.setdefault(int(number[1]), entry) is not entry:
            raise Mismatch(f"{entry.path} was not written by a merge")
    if entries_by_number.keys() != set(range(len(groups))):
        raise Mismatch(
            f"{directory}: merged into {len(entries_by_number)} files instead of {len(groups)}"
        )
    return [entries_by_number[number] for number in range(len(groups))]


def verified(
    groups: Sequence[Group],
    entries: Sequence[Entry],
    rows_in_file: Callable[[str], int],
    target: RowFormat,
) -> tuple[Merged, ...]:
    """The merges, if each new file has as many rows as the old ones. `rows` are by path. Raises
    Mismatch."""
    files_by_merge: dict[Merge, list[MergedFile]] = {}
    for group, entry in zip(groups, entries, strict=True):
        rows_before, rows_after = sum(map(rows_in_file, group.files)), rows_in_file(entry.path)
        if rows_before != rows_after:
            raise Mismatch(
                f"{hour_folder(group.merge.hour)}: {len(group.files)} files have {rows_before:,}"
                f" rows, but the merged file has {rows_after:,}"
            )
        file = MergedFile(entry.path, rows_after, entry.size, _suffix(entry, target))
        files_by_merge.setdefault(group.merge, []).append(file)
    return tuple(Merged(merge, tuple(files)) for merge, files in files_by_merge.items())


def _suffix(entry: Entry, target: RowFormat) -> str:
    """The suffix for the final name; Spark names pieces and lines as text."""
    suffix = entry.name.partition(".c000.")[2]
    return "." + re.sub(r"^txt", target.format.value, suffix)

"""Which small files of an hour become one, and whether what became of them has the same rows. Only
files with the same columns become one, so that nothing of a row is lost, whatever has become of the
table's schema since. A file that is alone with its columns stays as it is.
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
from loader.tables import hour_folder

_NUMBER: Final = re.compile(r"/(?:kind=rows/slice|merged_*)=(\d+)/")


class Footer(msgspec.Struct, frozen=True):
    """Of one file. Files whose `columns` are the same text have the same columns."""

    columns: str = ""
    rows: int | None = None  # None: it does not say
    row_groups: int = 1


def grouped(sizes: Mapping[str, int], wanted: int) -> list[list[str]]:
    """The files in so many groups, none of them empty, of about the same size."""
    groups: list[list[str]] = [[] for _ in range(min(wanted, len(sizes)))]
    heap = [(0, at) for at in range(len(groups))]
    for path in sorted(sizes, key=lambda each: (-sizes[each], each)):
        filled, at = heapq.heappop(heap)
        groups[at].append(path)
        heapq.heappush(heap, (filled + sizes[path], at))
    return [sorted(group) for group in groups]


class Group(msgspec.Struct, frozen=True):
    """Files that become one. Paths are relative to the root."""

    number: int
    merge: Merge
    files: tuple[str, ...]
    columns: str
    row_groups: int
    size: int  # bytes
    largest: int  # of a file


def groups_of(
    merges: Iterable[Merge],
    sizes: Mapping[str, int],
    known: Mapping[str, Footer],
    *,
    first: int = 0,
) -> list[Group]:
    """What is really merged is the `merge` of each group: of an hour's files those that can be.
    They are numbered, from `first` on."""
    groups: list[Group] = []
    for merge in merges:
        parts = list(_mergeable(merge, sizes, known))
        files = tuple(sorted(path for part in parts for path in part))
        done = replace(
            merge, files=files, bytes=sum(map(sizes.__getitem__, files)), files_wanted=len(parts)
        )
        for part in parts:
            groups.append(_group(first + len(groups), done, part, sizes, known))
    return groups


def _mergeable(
    merge: Merge, sizes: Mapping[str, int], known: Mapping[str, Footer]
) -> Iterator[list[str]]:
    alike: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for path in merge.files:
        alike[known[path].columns][path] = sizes[path]
    for _, mine in sorted(alike.items()):
        share = merge.files_wanted * sum(mine.values())
        wanted = max(1, -(-share // max(merge.bytes, 1)))
        if wanted < len(mine):
            yield from grouped(mine, wanted)


def _group(
    number: int,
    merge: Merge,
    files: list[str],
    sizes: Mapping[str, int],
    known: Mapping[str, Footer],
) -> Group:
    return Group(
        number,
        merge,
        tuple(files),
        columns=known[files[0]].columns,
        row_groups=sum(known[path].row_groups for path in files),
        size=sum(sizes[path] for path in files),
        largest=max(sizes[path] for path in files),
    )


def entries_of(store: Store, directory: str, groups: Sequence[Group]) -> list[Entry]:
    """The file of each group, in their order. Raises Mismatch."""
    found: dict[int, Entry] = {}
    for entry in store.list_recursively(directory):
        if entry.name.startswith(("_", ".")):
            continue  # Spark's own
        number = _NUMBER.search(entry.path)
        if number is None or found.setdefault(int(number[1]), entry) is not entry:
            raise Mismatch(f"{entry.path}: nothing that a merge has written")
    if found.keys() != set(range(len(groups))):
        raise Mismatch(f"{directory}: merged into {len(found)} files instead of {len(groups)}")
    return [found[number] for number in range(len(groups))]


def verified(
    groups: Sequence[Group],
    entries: Sequence[Entry],
    rows_in_file: Callable[[str], int],
    target: RowFormat,
) -> tuple[Merged, ...]:
    """What was merged, if each new file, by its path, has as many rows as the old ones. Raises
    Mismatch."""
    found: dict[Merge, list[MergedFile]] = {}
    for group, entry in zip(groups, entries, strict=True):
        before, after = sum(map(rows_in_file, group.files)), rows_in_file(entry.path)
        if before != after:
            raise Mismatch(
                f"{hour_folder(group.merge.hour)}: {len(group.files)} files have {before:,} rows,"
                f" and merged {after:,}"
            )
        file = MergedFile(entry.path, after, entry.size, _suffix(entry, target))
        found.setdefault(group.merge, []).append(file)
    return tuple(Merged(merge, tuple(files)) for merge, files in found.items())


def _suffix(entry: Entry, target: RowFormat) -> str:
    """How its name is to end; pieces and lines are text to Spark, which calls them so."""
    said = entry.name.partition(".c000.")[2]
    return "." + re.sub(r"^txt", target.format.value, said)

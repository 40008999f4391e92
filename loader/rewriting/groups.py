"""Which files become one. Pure.

Rule: only files with the same columns become one, so that nothing of a row is lost, whatever has
become of the table's schema since. A file that is alone with its columns stays as it is.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from loader.hours.closing import Merge
from loader.rewriting.footers import Footer
from loader.rewriting.grouping import grouped


@dataclass(frozen=True, slots=True)
class Group:
    """Files that become one. Paths are relative to the root."""

    number: int
    merge: Merge
    files: tuple[str, ...]
    columns: str
    row_groups: int
    size: int  # bytes
    largest: int  # of a file


def groups_of(
    merges: Iterable[Merge], sizes: Mapping[str, int], known: Mapping[str, Footer]
) -> list[Group]:
    """What is really merged is the `merge` of each group: of an hour's files those that can be."""
    groups: list[Group] = []
    for merge in merges:
        parts = list(_parts(merge, sizes, known))
        files = tuple(sorted(path for part in parts for path in part))
        done = replace(
            merge, files=files, bytes=sum(map(sizes.__getitem__, files)), files_wanted=len(parts)
        )
        for part in parts:
            groups.append(_group(len(groups), done, part, sizes, known))
    return groups


def _parts(
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

"""Small files of hours become few. The rows are those that were there: they are counted.

Each new file is the work of one task, which reads its files one after the other; the files of
several hours are one job. Nothing is shuffled. Files become one only if they have the same columns
(groups.py), so that nothing of a row is lost. Parquet is copied where that will do (appending.py),
small files are joined natively (joining.py), all else is read and written by Spark; rows that are
lines of text stay as they are.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from loader.config import FileFormat
from loader.errors import Mismatch
from loader.hours.close_manifest import Merged, MergedFile
from loader.hours.closing import Merge
from loader.rewriting.appending import LEAST_ROW_GROUP, append
from loader.rewriting.counting import count_rows, rows_of
from loader.rewriting.files import columns_in, read, read_lines, rewriting_session
from loader.rewriting.footers import Footer, footers
from loader.rewriting.formats import RowFormat
from loader.rewriting.groups import Group, groups_of
from loader.rewriting.joining import MOST_BYTES, join
from loader.rewriting.writing import write
from loader.store.store import Entry, Store
from loader.tables import hour_folder

MOST_FILES: Final = 50  # of one job: its plan has a branch for each

_NUMBER: Final = re.compile(r"/(?:kind=rows/slice|merged_*)=(\d+)/")


def merge_hours(
    spark: SparkSession,
    store: Store,
    merges: Sequence[Merge],
    sizes: Mapping[str, int],
    *,
    directory: str,
    target: RowFormat,
    append_above: int = LEAST_ROW_GROUP,
    join_below: int = MOST_BYTES,
) -> tuple[Merged, ...]:
    """Writes the new files below the directory, which does not exist. Sizes are by path.

    Of a merge, files stay out that share their columns with no other. Raises Mismatch if the new
    files hold more rows than the old ones, or less.
    """
    known = _footers(spark, store, [path for merge in merges for path in merge.files], target)
    groups = groups_of(merges, sizes, known)
    session = rewriting_session(spark)
    pure = groups if target.format is FileFormat.PARQUET else []
    done = append(spark, store, pure, f"{directory}/appended", least_row_group=append_above)
    small = [each for each in pure if each.number not in done and each.largest < join_below]
    done |= {each.number for each in small}
    other = [each for each in groups if each.number not in done]
    for at, part in enumerate(_parts(small)):
        join(session, store, part, f"{directory}/joined-{at}", target)
    for at, part in enumerate(each for alike in _alike(other) for each in _parts(alike)):
        _rewrite(session, store, part, f"{directory}/merged-{at}", target)
    entries = _entries(store, directory, len(groups))
    return _verified(spark, store, groups, entries, known=known, target=target)


def _footers(
    spark: SparkSession, store: Store, paths: Sequence[str], target: RowFormat
) -> dict[str, Footer]:
    uris = {store.uri(path): path for path in paths}
    return {uris[uri]: each for uri, each in footers(spark, list(uris), target.format).items()}


def _parts(groups: Sequence[Group]) -> list[Sequence[Group]]:
    return [groups[at : at + MOST_FILES] for at in range(0, len(groups), MOST_FILES)]


def _alike(groups: Sequence[Group]) -> list[list[Group]]:
    """Those of the same columns together."""
    found: defaultdict[str, list[Group]] = defaultdict(list)
    for group in groups:
        found[group.columns].append(group)
    return list(found.values())


def _rewrite(
    session: SparkSession, store: Store, groups: Sequence[Group], directory: str, target: RowFormat
) -> None:
    """Groups of the same columns: those that their files have, whatever the table's are by now."""
    as_lines = target.format is FileFormat.JSON

    def rows(uris: list[str]) -> DataFrame:
        if as_lines:
            return read_lines(session, uris)
        return read(session, uris, target.format, columns)

    if not as_lines:
        columns = columns_in(session, store.uri(groups[0].files[0]), target.format)
    column = "merged" if as_lines else _free_name(columns.names)
    frames = [
        rows(list(map(store.uri, group.files)))
        .coalesce(1)
        .withColumn(column, sql.lit(group.number))
        for group in groups
    ]
    together = reduce(DataFrame.union, frames)
    write(together, store.uri(directory), target, by=[column], as_lines=as_lines)


def _free_name(taken: Iterable[str]) -> str:
    lower = {each.lower() for each in taken}
    name = "merged"
    while name in lower:
        name += "_"
    return name


def _entries(store: Store, directory: str, groups: int) -> list[Entry]:
    """The file of each group, in their order."""
    found: dict[int, Entry] = {}
    for entry in store.list_recursively(directory):
        if entry.name.startswith(("_", ".")):
            continue  # Spark's own
        number = _NUMBER.search(entry.path)
        if number is None or found.setdefault(int(number[1]), entry) is not entry:
            raise Mismatch(f"{entry.path}: nothing that a merge has written")
    if found.keys() != set(range(groups)):
        raise Mismatch(f"{directory}: merged into {len(found)} files instead of {groups}")
    return [found[number] for number in range(groups)]


def _verified(
    spark: SparkSession,
    store: Store,
    groups: Sequence[Group],
    entries: Sequence[Entry],
    *,
    known: Mapping[str, Footer],
    target: RowFormat,
) -> tuple[Merged, ...]:
    there = {store.uri(path): known[path] for group in groups for path in group.files}
    before = rows_of(spark, there, target.format)
    uris = [store.uri(entry.path) for entry in entries]
    after = count_rows(spark, uris, target.format)
    found: dict[Merge, list[MergedFile]] = {}
    for group, entry, uri in zip(groups, entries, uris, strict=True):
        rows = sum(before[store.uri(path)] for path in group.files)
        if rows != after[uri]:
            raise Mismatch(
                f"{hour_folder(group.merge.hour)}: {len(group.files)} files have {rows:,} rows,"
                f" and merged {after[uri]:,}"
            )
        file = MergedFile(entry.path, rows, entry.size, _suffix(entry, target))
        found.setdefault(group.merge, []).append(file)
    return tuple(Merged(merge, tuple(files)) for merge, files in found.items())


def _suffix(entry: Entry, target: RowFormat) -> str:
    """How its name is to end; pieces and lines are text to Spark, which calls them so."""
    said = entry.name.partition(".c000.")[2]
    return "." + re.sub(r"^txt", target.format.value, said)

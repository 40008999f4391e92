"""Small files of hours become few, with the rows that were there."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from loader.config import FileFormat
from loader.errors import Mismatch
from loader.hours.closing import Merge, Merged
from loader.rewriting.here import merge_here
from loader.rewriting.merging import merge_hours
from loader.rewriting.reshaping import reshape
from loader.rewriting.row_format import RowFormat
from loader.store.local import LocalStore
from loader.tables import Hour
from tests.loader.rewriting.row_files import Row, columns, read_rows, row, target, write_rows

HERE = {"here": 1}
BY_SPARK = {"join_below": 0}
BY_COPYING = {"append_above": 100}
SEVEN, EIGHT = Hour(1_795_158_000_000), Hour(1_795_161_600_000)


def _merge(
    spark: SparkSession,
    root: Path,
    hours: dict[Hour, tuple[list[str], int]],
    kept_as: RowFormat,
    **how: int,
) -> tuple[Merged, ...]:
    sizes = {path: (root / path).stat().st_size for files, _ in hours.values() for path in files}
    merges = [
        Merge(hour, tuple(files), sum(sizes[path] for path in files), wanted)
        for hour, (files, wanted) in hours.items()
    ]
    store = LocalStore(f"file://{root}")
    directory = "_penstock/clicks/staging/run-2-x"
    if how == HERE:
        return merge_here(store, merges, sizes, directory=directory, target=kept_as)
    return merge_hours(spark, store, merges, sizes, directory=directory, target=kept_as, **how)


def _offsets(spark: SparkSession, root: Path, merged: Merged, kept_as: RowFormat) -> list[int]:
    found = [read_rows(spark, root / file.staged, kept_as) for file in merged.files]
    assert [len(rows) for rows in found] == [file.rows for file in merged.files]
    together = sorted((each for rows in found for each in rows), key=lambda each: each["_offset"])
    offsets = [each["_offset"] for each in together]
    assert together == list(map(row, offsets))
    return offsets


@pytest.mark.parametrize(
    ("how", "suffix"),
    [
        *((HERE, ".parquet"), ({}, ".parquet")),
        *((BY_SPARK, ".zstd.parquet"), (BY_COPYING, ".parquet")),
    ],
)
def test_several_hours_at_once(
    spark: SparkSession, tmp_path: Path, how: dict[str, int], suffix: str
) -> None:
    seven = [f"clicks/dt=2026-11-20/hour=07/part-{at}.parquet" for at in range(6)]
    eight = [f"clicks/dt=2026-11-20/hour=08/part-{at}.parquet" for at in range(2)]
    for at, path in enumerate([*seven, *eight]):
        write_rows(tmp_path / path, range(at * 10, at * 10 + 10))

    first, second = _merge(spark, tmp_path, {SEVEN: (seven, 2), EIGHT: (eight, 1)}, target(), **how)

    assert (first.merge.hour, second.merge.hour) == (SEVEN, EIGHT)
    assert [file.rows for file in first.files] == [30, 30]
    assert _offsets(spark, tmp_path, first, target()) == list(range(60))
    assert _offsets(spark, tmp_path, second, target()) == list(range(60, 80))
    if how not in (HERE, BY_COPYING):
        tasks = {Path(file.staged).name[:10] for each in (first, second) for file in each.files}
        assert tasks == {"part-00000", "part-00001", "part-00002"}
    for file in (*first.files, *second.files):
        assert file.suffix == suffix
        assert file.bytes == (tmp_path / file.staged).stat().st_size


@pytest.mark.parametrize("how", [HERE, {}, BY_SPARK, BY_COPYING])
def test_nothing_of_a_row_is_lost_when_the_schema_has_changed(
    spark: SparkSession, tmp_path: Path, how: dict[str, int]
) -> None:
    """Whatever the table's columns are by now: files of other columns stay apart."""
    folder = "clicks/dt=2026-11-20/hour=07"
    files = [f"{folder}/part-{at}.parquet" for at in range(5)]
    gone = {"gone": pa.array(["before"]), "merged": pa.array([7])}
    for at, extra in enumerate([gone, None, {"narrow": pa.array([1], pa.int32())}, gone, None]):
        write_rows(tmp_path / files[at], [at], extra)

    (found,) = _merge(spark, tmp_path, {SEVEN: (files, 1)}, target(), **how)

    assert found.merge.files == (files[0], files[1], files[3], files[4])
    assert found.merge.bytes == sum((tmp_path / path).stat().st_size for path in found.merge.files)
    merged = [pq.read_table(tmp_path / each.staged, partitioning=None) for each in found.files]
    rows = [each for table in merged for each in table.to_pylist()]
    before = [
        each
        for path in found.merge.files
        for each in pq.read_table(tmp_path / path, partitioning=None).to_pylist()
    ]
    assert sorted(rows, key=_offset) == sorted(before, key=_offset)
    assert [each.rows for each in found.files] == [2, 2]


def _offset(row: Row) -> int:
    return int(row["_offset"])


def test_row_groups_that_are_large_are_copied(spark: SparkSession, tmp_path: Path) -> None:
    """And not what is tiny."""
    files = [f"clicks/part-{at}.parquet" for at in range(5)]
    for at, path in enumerate(files):
        write_rows(tmp_path / path, [at] if at < 3 else [at] * 50, row_group_size=1)

    hours = {SEVEN: (files[:3], 1), EIGHT: (files[3:], 1)}
    least = (tmp_path / files[0]).stat().st_size
    copied, joined = _merge(spark, tmp_path, hours, target(), append_above=least)

    groups = [pq.ParquetFile(tmp_path / each.files[0].staged) for each in (copied, joined)]
    assert [each.num_row_groups for each in groups] == [3, 1]
    assert _offsets(spark, tmp_path, copied, target()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("format_", "suffix"), [(FileFormat.ORC, ".zstd.orc"), (FileFormat.JSON, ".json.gz")]
)
def test_other_formats(
    spark: SparkSession, tmp_path: Path, format_: FileFormat, suffix: str
) -> None:
    """Lines are joined as they are; files of other columns stay apart."""
    staged = tmp_path / "staged"
    former = target(format_, of=columns(gone="string"))
    for at, kept_as in enumerate([target(format_), target(format_), former]):
        folder = f"slice={at}/dt=2026-11-20/hour=07"
        offsets = range(at * 5, at * 5 + 5)
        gone = {"gone": pa.array(["x"] * 5)} if kept_as is former else None
        rows = write_rows(staged / folder / "part-0.txt", offsets, gone)
        reshape(spark, [rows], [], f"file://{tmp_path}/clicks-{at}", kept_as)
    files = sorted(
        str(path.relative_to(tmp_path)) for path in tmp_path.glob("clicks-*/*/*/*/part-*")
    )
    assert len(files) == 3

    (found,) = _merge(spark, tmp_path, {SEVEN: (files, 1)}, target(format_))

    assert [file.suffix for file in found.files] == [suffix]
    (tmp_path / found.files[0].staged).rename(tmp_path / f"whole{suffix}")
    rows_there = read_rows(spark, tmp_path / f"whole{suffix}", former)
    if format_ is FileFormat.ORC:
        assert found.merge.files == tuple(files[:2])
        assert rows_there == [{**row(at), "gone": None} for at in range(10)]
    else:
        assert rows_there == [{**row(at), "gone": "x" if at >= 10 else None} for at in range(15)]


def test_what_a_merge_did_not_write_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    files = [f"clicks/part-{at}.parquet" for at in range(2)]
    for at, path in enumerate(files):
        write_rows(tmp_path / path, [at])
    stray = tmp_path / "_penstock/clicks/staging/run-2-x/0/merged=0/part-stray.c000.parquet"
    write_rows(stray, [99])

    with pytest.raises(Mismatch, match="nothing that a merge has written"):
        _merge(spark, tmp_path, {SEVEN: (files, 1)}, target())

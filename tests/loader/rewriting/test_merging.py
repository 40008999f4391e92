"""Files of hours are replaced by others, with the rows that were there and the table's columns."""

import io
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.cloudpickle import dumps
from pyspark.sql import SparkSession

from columns.column_types import list_of, map_of
from loader.config import FileCompression, FileFormat
from loader.decoding.spark_types import columns_of_spark
from loader.decoding.table_columns import are_same
from loader.errors import Mismatch
from loader.landing.pieces import PIECE_END, FileKind
from loader.rewriting.file_columns import check_values, read_columns, table_footers
from loader.rewriting.files import rewriting_session
from loader.rewriting.groups import Footer, grouped, groups_of
from loader.rewriting.joined_rows import joined
from loader.rewriting.merging import rewrite_hours, task_of
from loader.rewriting.reshaping import reshape
from loader.rewriting.row_format import RowFormat
from loader.rewriting.without_spark import rewrite_without_spark
from loader.store.local import LocalStore
from loader.store.store import Entry
from loader.values.rewrites import Rewrite, Rewritten
from loader.values.tables import Hour
from tests.loader.rewriting.row_files import (
    SCHEMA,
    Row,
    columns,
    read_rows,
    row,
    target,
    write_rows,
)

HERE = {"here": 1}
BY_SPARK = {"join_below": 0}
BY_COPYING = {"append_above": 100}
SEVEN, EIGHT = Hour(1_795_158_000_000), Hour(1_795_161_600_000)


def _merge(
    spark: SparkSession,
    root: Path,
    hours: dict[Hour, tuple[list[str], int]],
    kept_as: RowFormat,
    **how: Any,
) -> tuple[Rewritten, ...]:
    sizes = {path: (root / path).stat().st_size for files, _ in hours.values() for path in files}
    merges = [
        Rewrite(hour, tuple(files), sum(sizes[path] for path in files), wanted)
        for hour, (files, wanted) in hours.items()
    ]
    store = LocalStore(f"file://{root}")
    directory = "_penstock/clicks/staging/run-2-x"
    if how == HERE:
        return rewrite_without_spark(store, merges, sizes, directory=directory, target=kept_as)
    return rewrite_hours(spark, store, merges, sizes, directory=directory, target=kept_as, **how)


def _offsets(spark: SparkSession, root: Path, merged: Rewritten, kept_as: RowFormat) -> list[int]:
    for file in merged.files:  # the digest of what Spark itself wrote is unknown
        assert file.digest in {b"", sha256((root / file.staged).read_bytes()).digest()}
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

    assert (first.rewrite.hour, second.rewrite.hour) == (SEVEN, EIGHT)
    assert [file.rows for file in first.files] == [30, 30]
    assert _offsets(spark, tmp_path, first, target()) == list(range(60))
    assert _offsets(spark, tmp_path, second, target()) == list(range(60, 80))
    if how not in (HERE, BY_COPYING):
        tasks = {Path(file.staged).name[:10] for each in (first, second) for file in each.files}
        assert tasks == {"part-00000", "part-00001", "part-00002"}
    for file in (*first.files, *second.files):
        assert bool(file.digest) == (how in (HERE, {}))
        assert file.suffix == suffix
        assert file.bytes == (tmp_path / file.staged).stat().st_size


NUMBERS: dict[str, tuple[pa.DataType, pa.DataType, list[Any]]] = {
    "whole": (pa.int32(), pa.int64(), [7, None, -(2**31)]),
    "near": (pa.int32(), pa.float64(), [7, None, 2**31 - 1]),
    "part": (pa.float32(), pa.float64(), [0.1, None, float("nan")]),
    "money": (pa.decimal128(12, 2), pa.decimal128(14, 4), [Decimal("-1.20"), None, Decimal(0)]),
    "merged": (pa.int32(), pa.int32(), [7, 8, 9]),
}


def _narrow_and_wide() -> Iterator[tuple[str, pa.Array, pa.DataType]]:
    """Columns of former schemas: as they are, and within lists, maps and structs."""
    for name, (narrow, wide, values) in NUMBERS.items():
        yield name, pa.array(values, narrow), wide
        lists = [[value, None] if value else [] for value in values]
        yield f"{name}_list", pa.array(lists, list_of(narrow)), list_of(wide)
        maps = [[("k", value)] if value else None for value in values]
        yield f"{name}_map", pa.array(maps, map_of(narrow)), map_of(wide)
        structs = [{"b": value} if value else None for value in values]
        wide_struct = pa.struct([("a", pa.string()), ("b", wide)])
        yield f"{name}_struct", pa.array(structs, pa.struct([("b", narrow)])), wide_struct


@pytest.mark.parametrize("how", [HERE, {}, BY_SPARK])
def test_files_of_former_schemas_get_the_columns_of_the_table(
    spark: SparkSession, tmp_path: Path, how: dict[str, int]
) -> None:
    """One has narrower columns, one lacks them; no value changes, whatever is null."""
    folder = "clicks/dt=2026-11-20/hour=07"
    files = [f"{folder}/part-{at}.parquet" for at in range(3)]
    former = list(_narrow_and_wide())
    table = target(of=columns(**{name: type_ for name, _, type_ in former}))
    write_rows(tmp_path / files[0], range(3), {name: values for name, values, _ in former})
    write_rows(tmp_path / files[1], range(3, 6))
    latest = {name: pa.array([None], type_) for name, _, type_ in former}
    write_rows(tmp_path / files[2], [6], latest)

    (done,) = _merge(spark, tmp_path, {SEVEN: (files, 1)}, table, **how)

    assert done.rewrite.files == tuple(files)
    (new,) = done.files
    merged = pq.read_table(tmp_path / new.staged, partitioning=None)
    assert are_same(merged.schema, columns_of_spark(table.columns))
    rows = sorted(merged.to_pylist(), key=_offset)
    assert [{name: row[name] for name in SCHEMA.names} for row in rows] == list(map(row, range(7)))
    for name, values, _ in former:
        before = pa.chunked_array([values]).to_pylist()
        assert _numbers([row[name] for row in rows]) == _numbers([*before, *[None] * 4]), name


def _numbers(value: Any) -> Any:
    """Numbers as text, whatever their type, without fields that are null."""
    match value:
        case None | str():
            return value
        case dict():
            return {key: _numbers(item) for key, item in value.items() if item is not None}
        case list() | tuple():
            return [_numbers(item) for item in value]
    return repr(float(value))


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
    """Lines are joined as they are; files of other formats get the table's columns."""
    staged = tmp_path / "staged"
    former = target(format_, of=columns(gone=pa.string()))
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

    (found,) = _merge(spark, tmp_path, {SEVEN: (files, 1)}, former, compares_all=True)

    assert [file.suffix for file in found.files] == [suffix]
    (tmp_path / found.files[0].staged).rename(tmp_path / f"whole{suffix}")
    rows_there = read_rows(spark, tmp_path / f"whole{suffix}", former)
    assert rows_there == [{**row(at), "gone": "x" if at >= 10 else None} for at in range(15)]


def test_a_value_that_has_changed_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    """By sums of hashes, which ignore the order of rows; a null is a value, too."""
    rows, store = list(map(row, range(5))), LocalStore(f"file://{tmp_path}")
    write_rows(tmp_path / "old.parquet", range(5))
    (session, at) = rewriting_session(spark), 1
    old = read_columns(session, store, ["old.parquet"], target())
    rewrite = Rewrite(SEVEN, ("old.parquet",), 1, 1)
    (group,) = groups_of([rewrite], {"old.parquet": 1}, old.footers, table_footers(old, target()))
    changes: list[Row] = [
        {"nothing": ""},
        {"nothing": rows[at]["message"], "message": None},
        {"price": rows[at]["price"] + Decimal("0.0001")},
        {"tags": []},
        {"nested": {"a": 1, "b": [1, 1]}},
        {"counts": [("x", 1)]},
        dict(rows[0]),
    ]
    check = partial(check_values, session, store, old_files=old, target=target())
    for number, change in enumerate([{}, *changes]):
        changed_rows = [*reversed(rows[at + 1 :]), {**rows[at], **change}, *rows[:at]]
        path = f"new-{number}.parquet"
        pq.write_table(pa.Table.from_pylist(changed_rows, SCHEMA), tmp_path / path)
        groups = [(group, Entry(path, is_folder=False, size=1, modified=1))]
        if not number:
            check(groups)
            continue
        with pytest.raises(Mismatch, match=f"{path} does not have the values of the 1 files"):
            check(groups)


def test_what_a_merge_did_not_write_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    files = [f"clicks/part-{at}.parquet" for at in range(2)]
    for at, path in enumerate(files):
        write_rows(tmp_path / path, [at])
    stray = tmp_path / "_penstock/clicks/staging/run-2-x/0/merged=0/part-stray.c000.parquet"
    write_rows(stray, [99])

    with pytest.raises(Mismatch, match="was not written by this rewrite"):
        _merge(spark, tmp_path, {SEVEN: (files, 1)}, target())


HOUR = 3_600_000


def _file(rows: pa.Table, row_group_size: int = 1000) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, row_group_size=row_group_size)
    return sink.getvalue()


def _given(files: Iterable[tuple[int, bytes]]) -> Iterable[pa.RecordBatch]:
    for number, content in files:
        yield pa.RecordBatch.from_pydict(
            {
                "number": pa.array([number], pa.int32()),
                "hour": pa.array([number * HOUR], pa.int64()),
                "content": pa.array([content], pa.binary()),
            }
        )


def _files(pieces: Iterable[pa.RecordBatch]) -> dict[tuple[int, str], pa.Table]:
    """By number and hour. The report of each has its digest."""
    found: defaultdict[tuple[int, str], bytes] = defaultdict(bytes)
    digests: dict[int, str] = {}
    for piece in pieces:
        value = piece.column("value")[0].as_buffer().to_pybytes()
        number = piece.column("slice")[0].as_py()
        if piece.column("kind")[0].as_py() == FileKind.REPORT:
            digests[number] = value.decode()
        else:
            found[number, piece.column("hour")[0].as_py()] += value + PIECE_END.encode()
    assert digests == {number: sha256(data).hexdigest() for (number, _), data in found.items()}
    return {key: pq.read_table(io.BytesIO(data)) for key, data in found.items()}


@pytest.mark.not_quick("very many rows")
def test_many_small_row_groups_become_few_large_ones_and_what_is_held_is_bounded() -> None:
    numbers = pa.table({"_offset": pa.array(range(100_000), pa.int64())})
    small = [(0, _file(numbers, 100))] * 2
    pieces = joined(_given(small), FileCompression.NONE, numbers.schema)
    data = b"".join(
        each.column("value")[0].as_buffer().to_pybytes() + PIECE_END.encode()
        for each in pieces
        if each.column("kind")[0].as_py() == FileKind.ROWS
    )
    assert pq.ParquetFile(io.BytesIO(data)).num_row_groups == 1
    files = _given([(0, _file(numbers, 5000))])
    held = list(joined(files, FileCompression.NONE, numbers.schema, held_bytes=80_000))
    assert len(held) == 12  # ten row groups, the footer, and the report


UNPICKLE = """
import pickle, sys
task = pickle.load(sys.stdin.buffer)
print(sorted({name.partition(".")[0] for name in sys.modules} & {"loader", "wire", "schemas"}))
try:
    print(list(task([])))
except ModuleNotFoundError as error:
    print(error.name)
"""


@pytest.mark.not_quick("starts a process")
def test_a_task_is_unpickled_where_nothing_of_penstock_was_imported() -> None:
    """And the first that it does is to look for it."""
    done = subprocess.run(
        [sys.executable, "-c", UNPICKLE],
        input=dumps(task_of(target())),  # type: ignore[no-untyped-call]
        capture_output=True,
        check=True,
        cwd="/",
        timeout=60,
    )
    found, result = done.stdout.decode().splitlines()
    assert found == "[]"
    assert result in {"[]", "penstock"}


NOON = Hour(43_200_000)
SIZES = st.dictionaries(st.text("abcdef", min_size=1), st.integers(0, 1000), min_size=1)
FILES = st.dictionaries(
    st.text("abcdef", min_size=1), st.tuples(st.integers(0, 1000), st.sampled_from("xyz"))
)


@given(SIZES, st.integers(1, 20))
def test_every_file_is_in_one_group_and_these_are_of_a_size(
    sizes: dict[str, int], wanted: int
) -> None:
    groups = grouped(sizes, wanted)
    assert sorted(path for group in groups for path in group) == sorted(sizes)
    assert len(groups) == min(wanted, len(sizes))
    assert all(groups)
    assert groups == grouped(dict(sorted(sizes.items(), reverse=True)), wanted)
    filled = [sum(sizes[path] for path in group) for group in groups]
    assert max(filled) - min(filled) <= max(sizes.values())


@given(FILES.filter(bool), st.integers(1, 20))
def test_groups_have_all_files_and_know_which_are_converted(
    files: dict[str, tuple[int, str]], wanted: int
) -> None:
    sizes = {path: size for path, (size, _) in files.items()}
    known = {path: Footer(columns, row_groups=2) for path, (_, columns) in files.items()}
    rewrite = Rewrite(NOON, tuple(sorted(files)), sum(sizes.values()), wanted)

    groups = groups_of([rewrite], sizes, known, {"x", "y"})

    assert [each.number for each in groups] == list(range(min(len(files), wanted)))
    assert sorted(path for each in groups for path in each.files) == sorted(files)
    for group in groups:
        texts = {known[path].columns for path in group.files}
        assert group.columns == ("".join(texts) if len(texts) == 1 else "")
        assert group.is_converted == ("z" in texts)
        assert group.row_groups == 2 * len(group.files)
        assert group.size == sum(sizes[path] for path in group.files)
        assert group.rewrite is rewrite

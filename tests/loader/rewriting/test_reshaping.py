"""Staged Parquet in the form in which a table keeps its rows, and how many rows files hold."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from loader.config import FileCompression, FileFormat
from loader.errors import LoaderError
from loader.landing.pieces import HOUR_COLUMN
from loader.rewriting.contents import count_rows
from loader.rewriting.reshaping import reshape
from loader.rewriting.row_format import check_format, codec
from loader.run.spark_work import SparkWork
from tests.loader.rewriting.row_files import columns, frame, read_rows, row, target, write_rows

HOUR = 3_600_000
SEVEN = 1_795_158_000_000  # 2026-11-20 07:00 UTC


def _folders(out: Path) -> list[str]:
    return sorted(
        str(path.parent.relative_to(out))
        for path in out.rglob("*")
        if path.is_file() and not path.name.startswith((".", "_"))
    )


@pytest.mark.parametrize(
    ("format_", "compression", "suffix"),
    [
        (FileFormat.ORC, FileCompression.ZSTD, ".c000.zstd.orc"),
        (FileFormat.ORC, FileCompression.GZIP, ".c000.zlib.orc"),
        (FileFormat.JSON, FileCompression.ZSTD, ".c000.json.gz"),
        (FileFormat.JSON, FileCompression.NONE, ".c000.json"),
    ],
)
def test_rows_are_the_same_in_every_format(
    spark: SparkSession,
    tmp_path: Path,
    format_: FileFormat,
    compression: FileCompression,
    suffix: str,
) -> None:
    staged, out = tmp_path / "staged [a] {b}" / "kind=rows", tmp_path / "out"
    folders = ["slice=0/dt=2026-11-20/hour=07", "slice=12/dt=0999-01-02/hour=23"]
    first = write_rows(staged / folders[0] / "part-0.c000.txt", range(10))
    second = write_rows(staged / folders[1] / "part-0.c000.txt", range(10, 15))
    kept_as = target(format_, compression)

    reshape(spark, [first, second], [], f"file://{out}", kept_as)

    assert _folders(out) == folders
    assert all(path.name.endswith(suffix) for path in out.rglob("part-*"))
    assert read_rows(spark, out / folders[0], kept_as) == list(map(row, range(10)))
    assert read_rows(spark, out / folders[1], kept_as) == list(map(row, range(10, 15)))
    uris = [f"file://{next((out / folder).glob('part-*'))}" for folder in folders]
    assert count_rows(spark, uris, format_) == dict(zip(uris, [10, 5], strict=True))


def test_mixed_rows_are_divided_by_their_hour(spark: SparkSession, tmp_path: Path) -> None:
    hours = pa.array([SEVEN + (at % 30) * HOUR for at in range(90)], pa.int64())
    staged = tmp_path / "kind=mixed" / "slice=4" / "dt=none" / "hour=none" / "part-0.c000.txt"
    mixed = write_rows(staged, range(90), {HOUR_COLUMN: hours})
    out = tmp_path / "out"

    reshape(spark, (), [mixed], f"file://{out}", target())

    days = [("2026-11-20", range(7, 24)), ("2026-11-21", range(13))]
    assert _folders(out) == [
        f"slice=4/dt={day}/hour={hour:02}" for day, hours_ in days for hour in hours_
    ]
    assert all(path.name.endswith(".c000.zstd.parquet") for path in out.rglob("part-*"))
    noon = out / "slice=4/dt=2026-11-20/hour=12"
    assert read_rows(spark, noon, target()) == [row(at) for at in (5, 35, 65)]
    # A plain reader sees the table's columns, with times that every program can read.
    plain = spark.read.parquet(f"file://{noon}")
    assert plain.columns == frame(spark, noon, target()).columns
    assert pa.parquet.read_schema(next(noon.glob("part-*"))).field("at").type == pa.timestamp(
        "us", tz="UTC"
    )


def test_rows_and_mixed_rows_land_together(spark: SparkSession, tmp_path: Path) -> None:
    """In a table that has a column called like one of the folders."""
    folder = "slice=0/dt=2026-11-20/hour=07"
    path = tmp_path / "kind=rows" / folder / "part-0.txt"
    rows = write_rows(path, range(3), {"Slice": pa.array(["a", "b", "c"])})
    hours = pa.array([SEVEN, SEVEN + HOUR], pa.int64())
    path = tmp_path / "kind=mixed/slice=1/dt=none/hour=none/part-0.txt"
    mixed = write_rows(path, [3, 4], {"Slice": pa.array(["d", "e"]), HOUR_COLUMN: hours})
    out, kept_as = tmp_path / "out", target(FileFormat.ORC, of=columns(Slice=pa.string()))

    reshape(spark, [rows], [mixed], f"file://{out}", kept_as)

    later = "slice=1/dt=2026-11-20/hour=08"
    assert _folders(out) == [folder, "slice=1/dt=2026-11-20/hour=07", later]
    assert [each["Slice"] for each in read_rows(spark, out / folder, kept_as)] == ["a", "b", "c"]
    assert read_rows(spark, out / later, kept_as) == [{**row(4), "Slice": "e"}]


def test_avro_without_its_module_names_what_is_missing(spark: SparkSession) -> None:
    with pytest.raises(LoaderError, match=r"spark\.jars\.packages to org.apache.spark:spark-avro_"):
        SparkWork(spark).check_avro()
    for each in (FileFormat.PARQUET, FileFormat.ORC, FileFormat.JSON):
        check_format(each, FileCompression.ZSTD, SparkWork(spark).check_avro)


def test_a_codec_that_a_format_has_not() -> None:
    with pytest.raises(LoaderError, match="`compression: lz4`: avro supports zstd, snappy, gzip,"):
        codec(FileFormat.AVRO, FileCompression.LZ4)


@pytest.mark.parametrize("footers", [0, 10])
def test_parquet_whatever_its_files_are_called(
    spark: SparkSession, tmp_path: Path, footers: int
) -> None:
    odd = tmp_path / "a [b] {c,d} 100% e+f é" / "slice=1"
    uris = [
        write_rows(odd / "part-0.c000.txt", range(7)),
        write_rows(odd / "part-1", []),
        write_rows(odd / "part-2.parquet", range(5000)),
        write_rows(odd / "part-3*.parquet", range(3)),
        write_rows(odd / "part-33.parquet", range(4)),
    ]

    assert count_rows(spark, [], FileFormat.PARQUET) == {}
    found = count_rows(spark, uris, FileFormat.PARQUET, most_footers=footers)

    assert found == dict(zip(uris, [7, 0, 5000, 3, 4], strict=True))

"""Staged Parquet in the form in which a table keeps its rows."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from loader.config import FileCompression, FileFormat
from loader.errors import LoaderError
from loader.landing.pieces import HOUR_COLUMN
from loader.rewriting.reshaping import reshape
from loader.rewriting.row_format import check_format, codec
from loader.run.spark_work import SparkWork
from tests.loader.rewriting.row_files import (
    columns,
    frame,
    read_rows,
    row,
    target,
    write_rows,
)

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
    folder = "slice=0/dt=2026-11-20/hour=07"
    rows = write_rows(tmp_path / "kind=rows" / folder / "part-0.txt", range(3))
    hours = pa.array([SEVEN, SEVEN + HOUR], pa.int64())
    mixed = write_rows(
        tmp_path / "kind=mixed/slice=1/dt=none/hour=none/part-0.txt", [3, 4], {HOUR_COLUMN: hours}
    )
    out, kept_as = tmp_path / "out", target(FileFormat.ORC)

    reshape(spark, [rows], [mixed], f"file://{out}", kept_as)

    assert _folders(out) == [
        folder,
        "slice=1/dt=2026-11-20/hour=07",
        "slice=1/dt=2026-11-20/hour=08",
    ]
    assert read_rows(spark, out / "slice=1/dt=2026-11-20/hour=08", kept_as) == [row(4)]


def test_a_column_may_be_called_slice(spark: SparkSession, tmp_path: Path) -> None:
    folder = "slice=7/dt=2026-11-20/hour=07"
    slices = pa.array(["a", "b"])
    rows = write_rows(tmp_path / "kind=rows" / folder / "part-0.txt", [0, 1], {"Slice": slices})
    out, kept_as = tmp_path / "out", target(FileFormat.ORC, of=columns(Slice="string"))

    reshape(spark, [rows], [], f"file://{out}", kept_as)

    assert _folders(out) == [folder]
    found = read_rows(spark, out / folder, kept_as)
    assert [each["Slice"] for each in found] == ["a", "b"]


def test_avro_without_its_module_names_what_is_missing(spark: SparkSession) -> None:
    with pytest.raises(LoaderError, match=r"spark\.jars\.packages to org.apache.spark:spark-avro_"):
        SparkWork(spark).check_avro()


@pytest.mark.parametrize("format_", [FileFormat.PARQUET, FileFormat.ORC, FileFormat.JSON])
def test_formats_that_spark_has(spark: SparkSession, format_: FileFormat) -> None:
    check_format(format_, FileCompression.ZSTD, SparkWork(spark).check_avro)


def test_a_codec_that_a_format_has_not() -> None:
    with pytest.raises(LoaderError, match="`compression: lz4`: avro has zstd, snappy, gzip, none"):
        codec(FileFormat.AVRO, FileCompression.LZ4)

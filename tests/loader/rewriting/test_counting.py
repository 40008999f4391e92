"""How many rows files hold."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from loader.config import FileFormat
from loader.rewriting.contents import count_rows
from loader.rewriting.reshaping import reshape
from tests.loader.rewriting.row_files import target, write_rows


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

    found = count_rows(spark, uris, FileFormat.PARQUET, most_footers=footers)

    assert found == dict(zip(uris, [7, 0, 5000, 3, 4], strict=True))


@pytest.mark.parametrize("format_", [FileFormat.ORC, FileFormat.JSON])
def test_other_formats(spark: SparkSession, tmp_path: Path, format_: FileFormat) -> None:
    staged, out = tmp_path / "staged", tmp_path / "out"
    folders = ["slice=0/dt=2026-11-20/hour=07", "slice=1/dt=2026-11-20/hour=07"]
    rows = [
        write_rows(staged / folders[0] / "part-0.txt", range(40)),
        write_rows(staged / folders[1] / "part-0.txt", range(2)),
    ]
    reshape(spark, rows, [], f"file://{out}", target(format_))
    uris = [f"file://{next((out / folder).glob('part-*'))}" for folder in folders]

    assert count_rows(spark, uris, format_) == dict(zip(uris, [40, 2], strict=True))


def test_nothing_is_counted_without_files(spark: SparkSession) -> None:
    assert count_rows(spark, [], FileFormat.PARQUET) == {}

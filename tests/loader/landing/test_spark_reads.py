"""Spark reads the files that pieces become, whatever their columns are."""

from pathlib import Path

from pyspark.sql import SparkSession

from loader.config import FileCompression
from loader.landing.pieces import PIECE_END
from loader.landing.slice_files import ParquetStream, writer_settings
from tests.loader.landing.test_parquet_stream import every_type


def test_spark_reads_every_type(spark: SparkSession, tmp_path: Path) -> None:
    rows = every_type(3000)
    stream = ParquetStream(rows.schema, writer_settings(rows, FileCompression.ZSTD))
    pieces = [stream.row_group(rows.slice(0, 2000)), stream.end(rows.slice(2000))]
    path = tmp_path / "part-0.txt"
    path.write_bytes(b"".join(piece + PIECE_END.encode() for piece in pieces))

    read = spark.read.parquet(path.as_uri())
    assert {field.name: field.dataType.simpleString() for field in read.schema} == {
        "repeats": "string",
        "text": "string",
        "blob": "binary",
        "whole": "bigint",
        "small": "int",
        "real": "double",
        "single": "float",
        "truth": "boolean",
        "moment": "timestamp",
        "local": "timestamp_ntz",
        "day": "date",
        "money": "decimal(20,2)",
        "list": "array<bigint>",
        "map": "map<string,string>",
        "struct": "struct<deep:struct<text:string>,whole:bigint>",
        "null": "string",
    }
    found = read.sort("whole").toArrow().cast(rows.schema)
    assert found.equals(rows.sort_by("whole"))

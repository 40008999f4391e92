"""Formats of files, as Spark knows them: the names of their codecs, and whether it can write them.

Not every format has every codec. What comes nearest takes the place of one that is missing, where
there is such a thing: the same algorithm in another frame, or, for JSON, which Spark cannot pack
with zstd, gzip.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from loader.config import Compression, FileFormat
from loader.errors import LoaderError

_CODECS: Final = {
    FileFormat.PARQUET: {
        Compression.ZSTD: "zstd",
        Compression.SNAPPY: "snappy",
        Compression.GZIP: "gzip",
        Compression.LZ4: "lz4_raw",
        Compression.NONE: "none",
    },
    FileFormat.ORC: {
        Compression.ZSTD: "zstd",
        Compression.SNAPPY: "snappy",
        Compression.GZIP: "zlib",
        Compression.LZ4: "lz4",
        Compression.NONE: "none",
    },
    FileFormat.JSON: {
        Compression.ZSTD: "gzip",
        Compression.SNAPPY: "snappy",
        Compression.GZIP: "gzip",
        Compression.LZ4: "lz4",
        Compression.NONE: "none",
    },
    FileFormat.AVRO: {
        Compression.ZSTD: "zstandard",
        Compression.SNAPPY: "snappy",
        Compression.GZIP: "deflate",
        Compression.NONE: "uncompressed",
    },
}


@dataclass(frozen=True, slots=True)
class RowFormat:
    """How rows are kept in files."""

    format: FileFormat
    compression: Compression
    columns: str  # as Spark's JSON

    @property
    def codec(self) -> str:
        return codec(self.format, self.compression)


def codec(format_: FileFormat, compression: Compression) -> str:
    """What Spark calls it. Raises LoaderError if the format has nothing like it."""
    found = _CODECS[format_].get(compression)
    if found is None:
        known = ", ".join(_CODECS[format_])
        raise LoaderError(f"`compression: {compression}`: {format_} has {known}")
    return found


def check_format(
    start_spark: Callable[[], SparkSession], format_: FileFormat, compression: Compression
) -> None:
    """Raises LoaderError if this Spark cannot write such files. Only for Avro it is asked."""
    codec(format_, compression)
    if format_ is not FileFormat.AVRO:
        return
    spark = start_spark()
    jvm: Any = spark._jvm
    sources = jvm.org.apache.spark.sql.execution.datasources.DataSource
    try:
        sources.lookupDataSource("avro", spark._jsparkSession.sessionState().conf())
    except (PySparkException, Py4JError) as error:
        scala = jvm.scala.util.Properties.versionNumberString().rpartition(".")[0]
        package = f"org.apache.spark:spark-avro_{scala}:{spark.version}"
        raise LoaderError(
            f"`format: avro` needs Spark's Avro module on its class path: set spark.jars.packages "
            f"to {package}, or spark.jars to where its jar lies"
        ) from error

"""Reads and writes files of rows by Spark, with explicit columns and a known format and codec."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from loader.config import FileFormat
from loader.decoding.spark_types import columns_of_spark, spark_json
from loader.errors import LoaderError
from loader.rewriting.row_format import RowFormat

_GLOB: Final = re.compile(r"([][{}*?\\])")
# Times are UTC with microseconds in every format, whatever the operator's session says.
_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # If columns come from a file, no type is mistaken for another.
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.maxRecordsPerFile": "0",
    # Branches of a union remain separate tasks.
    "spark.sql.unionOutputPartitioning": "false",
    # A task writes this many files at a time without sorting its rows.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
}
_OPTIONS: Final[Mapping[FileFormat, Mapping[str, str]]] = {
    FileFormat.JSON: {
        "mode": "FAILFAST",
        "lineSep": "\n",
        "encoding": "UTF-8",
        "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
        "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    },
}


def check_avro(spark: SparkSession) -> None:
    """Checks that this Spark can write Avro. Raises LoaderError."""
    jvm: Any = spark._jvm
    sources = jvm.org.apache.spark.sql.execution.datasources.DataSource
    try:
        sources.lookupDataSource("avro", spark._jsparkSession.sessionState().conf())
    except (PySparkException, Py4JError) as error:
        scala = jvm.scala.util.Properties.versionNumberString().rpartition(".")[0]
        package = f"org.apache.spark:spark-avro_{scala}:{spark.version}"
        raise LoaderError(
            f"`format: avro` needs Spark's Avro module on its class path: set spark.jars.packages "
            f"to {package}, or spark.jars to the path of its jar"
        ) from error


def rewriting_session(spark: SparkSession) -> SparkSession:
    """A session on the same Spark with settings of its own, since jobs of several tables run
    concurrently."""
    session = spark.newSession()
    for key, value in _SETTINGS.items():
        session.conf.set(key, value)
    return session


def options_of(format_: FileFormat) -> Mapping[str, str]:
    """The options of a format, for both reading and writing."""
    return _OPTIONS.get(format_, {})


def read(
    session: SparkSession, uris: Sequence[str], format_: FileFormat, columns: StructType
) -> DataFrame:
    """Reads these files, ignoring the names of their folders."""
    reader = session.read.format(format_.value).schema(columns).options(**options_of(format_))
    return reader.option("recursiveFileLookup", "true").load(list(map(as_pattern, uris)))


def columns_in(session: SparkSession, uri: str, format_: FileFormat) -> StructType:
    reader = session.read.format(format_.value).option("recursiveFileLookup", "true")
    return reader.load(as_pattern(uri)).schema


def read_lines(session: SparkSession, uris: Sequence[str]) -> DataFrame:
    """Reads files as rows of one line of text."""
    reader = session.read.option("lineSep", "\n").option("recursiveFileLookup", "true")
    return reader.text(list(map(as_pattern, uris)))


def as_pattern(uri: str) -> str:
    """Escapes a path, which Spark takes as a pattern."""
    return _GLOB.sub(r"\\\1", uri)


def columns_of(target: RowFormat) -> StructType:
    """The columns without the names of their fields, which Spark would write into files."""
    columns = spark_json(columns_of_spark(target.columns))
    return StructType.fromJson(json.loads(columns))


def write(
    rows: DataFrame,
    directory: str,
    target: RowFormat,
    *,
    by: Sequence[str],
    as_lines: bool = False,
) -> None:
    """Writes rows into folders by these columns, which are then left out of the files."""
    format_ = "text" if as_lines else target.format.value
    writer = rows.write.mode("append").format(format_).partitionBy(*by)
    writer = writer.option("compression", target.codec).options(**options_of(target.format))
    # A manifest names the files, so a marker of the job's success is not needed.
    writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").save(directory)

"""Files of rows as DataFrames: read by name, with columns that are given and not guessed."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from loader.config import FileFormat

_GLOB: Final = re.compile(r"([][{}*?\\])")

# Times are UTC and whole microseconds, in every format and whatever the operator's session says.
_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Where columns are what a file says: no type is taken for another.
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.maxRecordsPerFile": "0",
    # Branches of a union stay tasks of their own.
    "spark.sql.unionOutputPartitioning": "false",
    # As many files may a task write at a time without sorting its rows by file.
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


def rewriting_session(spark: SparkSession) -> SparkSession:
    """Settings of its own on the same Spark: several tables' jobs run at a time."""
    session = spark.newSession()
    for key, value in _SETTINGS.items():
        session.conf.set(key, value)
    return session


def options_of(format_: FileFormat) -> Mapping[str, str]:
    """What a format is read and written with alike."""
    return _OPTIONS.get(format_, {})


def read(
    session: SparkSession, uris: Sequence[str], format_: FileFormat, columns: StructType
) -> DataFrame:
    """These files, and nothing that folders say."""
    reader = session.read.format(format_.value).schema(columns).options(**options_of(format_))
    return reader.option("recursiveFileLookup", "true").load(list(map(as_pattern, uris)))


def columns_in(session: SparkSession, uri: str, format_: FileFormat) -> StructType:
    """As the file itself says."""
    reader = session.read.format(format_.value).option("recursiveFileLookup", "true")
    return reader.load(as_pattern(uri)).schema


def read_lines(session: SparkSession, uris: Sequence[str]) -> DataFrame:
    """Rows that are lines of text, as they are."""
    reader = session.read.option("lineSep", "\n").option("recursiveFileLookup", "true")
    return reader.text(list(map(as_pattern, uris)))


def as_pattern(uri: str) -> str:
    """Spark takes every path for a pattern; this one matches itself alone."""
    return _GLOB.sub(r"\\\1", uri)

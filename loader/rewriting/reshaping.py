"""Converts staged Parquet files to the table's format, and divides rows of mixed hours.

    {directory}/slice=3/dt=2026-11-20/hour=07/part-….c000.zstd.orc

A task can do neither: only Spark writes formats other than Parquet, and rows of too many hours come
in one file. Rows keep their order within an hour of a slice if they had a file of their own.
"""

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import LongType, StructField, StructType

from loader.config import FileFormat
from loader.landing.pieces import HOUR_COLUMN
from loader.rewriting.files import columns_of, read, rewriting_session, write
from loader.rewriting.row_format import RowFormat

SLICE, DAY, HOUR = "slice", "dt", "hour"

_FOLDERS: Final = r"slice=(\d+)/dt=([^/]+)/hour=([^/]+)/[^/]+$"


def reshape(
    spark: SparkSession,
    rows: Sequence[str],
    mixed: Sequence[str],
    directory: str,
    target: RowFormat,
) -> None:
    """Rewrites files of rows and of mixed rows below a directory, which must not exist."""
    session = rewriting_session(spark)
    columns = columns_of(target)
    names = _Names(columns)
    if rows:
        frame = read(session, rows, FileFormat.PARQUET, columns)
        folders = [_in_path(frame, group) for group in (1, 2, 3)]
        write(names.with_folders(frame, folders), directory, target, by=names.folders)
    if mixed:
        frame = read(session, mixed, FileFormat.PARQUET, _with_hour(columns))
        time = sql.timestamp_millis(frame[HOUR_COLUMN])
        folders = [
            _in_path(frame, 1),
            sql.date_format(time, "yyyy-MM-dd"),
            sql.date_format(time, "HH"),
        ]
        # Sorts rows by file, since not all of so many files can be open at once.
        session.conf.set("spark.sql.maxConcurrentOutputFileWriters", "0")
        divided_frame = names.with_folders(frame, folders).drop(HOUR_COLUMN)
        write(divided_frame, directory, target, by=names.folders)
    names.rename_folders(spark, directory)


class _Names:
    """The names of the folder columns: while Spark writes them, and afterwards.

    A table may have a column `slice`. (No column is named like day and hour.)
    """

    def __init__(self, columns: StructType) -> None:
        used_names = {name.lower() for name in columns.names}
        self.slice = SLICE
        while self.slice in used_names:
            self.slice += "_"
        self.folders = (self.slice, DAY, HOUR)

    def with_folders(self, rows: DataFrame, values: Sequence[Column]) -> DataFrame:
        return rows.withColumns(dict(zip(self.folders, values, strict=True)))

    def rename_folders(self, spark: SparkSession, directory: str) -> None:
        if self.slice == SLICE:
            return
        jvm: Any = spark._jvm
        folder = jvm.org.apache.hadoop.fs.Path(directory)
        settings = spark._jsparkSession.sessionState().newHadoopConf()
        filesystem = folder.getFileSystem(settings)
        for status in filesystem.listStatus(folder):
            name, separator, number = status.getPath().getName().partition("=")
            if separator and name == self.slice:
                target = jvm.org.apache.hadoop.fs.Path(folder, f"{SLICE}={number}")
                filesystem.rename(status.getPath(), target)


def _with_hour(columns: StructType) -> StructType:
    return StructType([*columns.fields, StructField(HOUR_COLUMN, LongType())])


def _in_path(rows: DataFrame, group: int) -> Column:
    """A value from the names of a row's folders."""
    path = rows.metadataColumn("_metadata").getField("file_path")
    return sql.regexp_extract(path, _FOLDERS, group)

"""Staged Parquet as tasks leave it, in the form in which the table keeps its rows.

    {directory}/slice=3/dt=2026-11-20/hour=07/part-….c000.zstd.orc

Two things are done here that a task cannot do: other formats than Parquet are Spark's to write; and
rows of too many different hours, which came in one file, are divided. Rows keep their order within
an hour of a slice where they had a file of their own.
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
    """Writes what is in files of rows, and of mixed rows, below a directory that does not exist."""
    session = rewriting_session(spark)
    columns = columns_of(target)
    names = _Names(columns)
    if rows:
        found = read(session, rows, FileFormat.PARQUET, columns)
        folders = [_in_path(found, at) for at in (1, 2, 3)]
        write(names.with_folders(found, folders), directory, target, by=names.folders)
    if mixed:
        found = read(session, mixed, FileFormat.PARQUET, _with_hour(columns))
        time = sql.timestamp_millis(found[HOUR_COLUMN])
        folders = [
            _in_path(found, 1),
            sql.date_format(time, "yyyy-MM-dd"),
            sql.date_format(time, "HH"),
        ]
        # All of a file's rows together: of so many files not all can be open.
        session.conf.set("spark.sql.maxConcurrentOutputFileWriters", "0")
        divided = names.with_folders(found, folders).drop(HOUR_COLUMN)
        write(divided, directory, target, by=names.folders)
    names.give_back(spark, directory)


class _Names:
    """What the folders are called while Spark takes them for columns, and afterwards.

    A table may have a column `slice`. (Day and hour are names that no column has.)
    """

    def __init__(self, columns: StructType) -> None:
        taken = {name.lower() for name in columns.names}
        self.slice = SLICE
        while self.slice in taken:
            self.slice += "_"
        self.folders = (self.slice, DAY, HOUR)

    def with_folders(self, rows: DataFrame, values: Sequence[Column]) -> DataFrame:
        return rows.withColumns(dict(zip(self.folders, values, strict=True)))

    def give_back(self, spark: SparkSession, directory: str) -> None:
        if self.slice == SLICE:
            return
        jvm: Any = spark._jvm
        folder = jvm.org.apache.hadoop.fs.Path(directory)
        settings = spark._jsparkSession.sessionState().newHadoopConf()
        filesystem = folder.getFileSystem(settings)
        for status in filesystem.listStatus(folder):
            name, found, number = status.getPath().getName().partition("=")
            if found and name == self.slice:
                target = jvm.org.apache.hadoop.fs.Path(folder, f"{SLICE}={number}")
                filesystem.rename(status.getPath(), target)


def _with_hour(columns: StructType) -> StructType:
    return StructType([*columns.fields, StructField(HOUR_COLUMN, LongType())])


def _in_path(rows: DataFrame, group: int) -> Column:
    """What the folders of a row's file say."""
    path = rows.metadataColumn("_metadata").getField("file_path")
    return sql.regexp_extract(path, _FOLDERS, group)

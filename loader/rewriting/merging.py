"""Rewrites files of hours: merges small ones, and gives all of them the table's columns. Rows are
counted before and after, and compared where files are converted.

Rule 1: each new file is written by one task, which reads its files one after the other; files of
        several hours share a job. There is no shuffle.
Rule 2: new files have the table's columns. Conversions are exact (decoding/table_columns.py), and
        files that have a column which the table lacks are never rewritten.
Rule 3: where it suffices, Parquet files are appended without decoding: row groups are copied. At
        0.45 µs of CPU for a row of 19 columns and 71 bytes, mostly for checksums, it costs half of
        joining them natively (measured), and needs no job. But tiny row groups would remain tiny,
        and the driver does all the work, with Parquet's own library: so this is only done if row
        groups are large enough, and if Spark's tasks run on the driver's machine anyway.
Rule 4: other small Parquet files are joined natively: a task receives whole files, and returns
        pieces of new ones (joined_rows.py). Reading and writing Parquet by Spark costs 5.4 µs of
        CPU for a row of 19 columns, this 1.0 µs, and the files are a quarter smaller (measured).
        Spark reads the bytes and writes the pieces, with its own access to the filesystem; files
        are in memory as a whole, so they must not be large.
Rule 5: everything else is read and written by Spark; lines of text stay as they are.

Hours with little data are rewritten without Spark (without_spark.py).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from importlib import import_module
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from loader.config import FileFormat
from loader.errors import Mismatch
from loader.landing.pieces import PIECE_END
from loader.rewriting.contents import rows_of
from loader.rewriting.file_columns import check_values, read_columns, table_footers
from loader.rewriting.files import (
    as_pattern,
    columns_of,
    read,
    read_lines,
    rewriting_session,
    write,
)
from loader.rewriting.groups import Group, groups_of, new_files_of, verified
from loader.rewriting.joined_rows import CONTENT, HOUR, NUMBER
from loader.rewriting.row_format import RowFormat
from loader.spark.job import FOLDERS
from loader.store.store import Store
from loader.values.rewrites import Rewrite, Rewritten

LEAST_ROW_GROUP: Final = 1024 * 1024  # average bytes: smaller row groups are not appended
_WRITERS: Final = 2  # files that are appended to at a time
_MODE: Final = "org.apache.parquet.hadoop.ParquetFileWriter$Mode"
_BLOCK, _PADDING = 128 * 1024 * 1024, 8 * 1024 * 1024
MOST_BYTES: Final = 32 * 1024 * 1024  # of a file that is joined natively
Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
COLUMNS: Final = "kind string, slice int, dt string, hour string, value string"
MOST_FILES: Final = 50  # written by one job, whose plan has a branch for each


def append(
    spark: SparkSession,
    store: Store,
    groups: Sequence[Group],
    directory: str,
    *,
    least_row_group: int = LEAST_ROW_GROUP,
) -> set[int]:
    """Merges suitable groups by appending their row groups unchanged, into
    `{directory}/merged={number}/part.c000.parquet`. Returns the groups' numbers."""
    suitable_groups = [
        group
        for group in groups
        if group.columns
        and not group.is_converted
        and group.size >= least_row_group * group.row_groups
    ]
    if not suitable_groups or not str(spark.sparkContext.master).startswith("local"):
        return set()

    def attempt(group: Group) -> int:
        files = [_opened(spark, store.uri(path)) for path in group.files]
        _write(spark, files, store.uri(f"{directory}/merged={group.number}/part.c000.parquet"))
        return group.number

    with ThreadPoolExecutor(min(_WRITERS, len(suitable_groups))) as writers:
        return set(writers.map(attempt, suitable_groups))


def _write(spark: SparkSession, files: Sequence[Any], target: str) -> None:
    parquet = _parquet(spark)
    schema_reader = parquet.ParquetFileReader.open(files[0])
    try:
        schema = schema_reader.getFooter().getFileMetaData().getSchema()
    finally:
        schema_reader.close()
    create = _jvm(spark).java.lang.Class.forName(_MODE).getEnumConstants()[0]
    path = _jvm(spark).org.apache.hadoop.fs.Path(target)
    output = parquet.util.HadoopOutputFile.fromPath(path, _settings(spark))
    writer = parquet.ParquetFileWriter(output, schema, create, _BLOCK, _PADDING)
    writer.start()
    for file in files:
        writer.appendFile(file)
    writer.end(_jvm(spark).java.util.HashMap())


def _opened(spark: SparkSession, uri: str) -> Any:
    path = _jvm(spark).org.apache.hadoop.fs.Path(uri)
    return _parquet(spark).util.HadoopInputFile.fromPath(path, _settings(spark))


def _parquet(spark: SparkSession) -> Any:
    return _jvm(spark).org.apache.parquet.hadoop


def _settings(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState().newHadoopConf()


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


def join(
    session: SparkSession,
    store: Store,
    groups: Sequence[Group],
    directory: str,
    target: RowFormat,
) -> None:
    """Joins each group into `{directory}/kind=rows/slice={number}/dt=…/hour=…/part-….txt`."""
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
    files = reduce(DataFrame.union, (_files(session, store, group) for group in groups))
    pieces = _mapped(session, files, task_of(target))
    text = pieces.write.partitionBy(*FOLDERS).option("lineSep", PIECE_END)
    text = text.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    text.option("compression", "none").text(store.uri(directory))


def task_of(target: RowFormat) -> Task:
    """The function that executors run. It consists of plain values, because nothing of Penstock can
    be imported when it is unpickled."""
    compression, columns = target.compression.value, target.columns

    def task(files: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import_module("penstock")  # puts the programs' folders on the path
        joined_rows = import_module("loader.rewriting.joined_rows")
        yield from joined_rows.task(files, compression, columns)

    return task


def _files(session: SparkSession, store: Store, group: Group) -> DataFrame:
    """A row for each file, all in one partition."""
    paths = [as_pattern(store.uri(path)) for path in group.files]
    frame = session.read.format("binaryFile").option("recursiveFileLookup", "true").load(paths)
    return frame.coalesce(1).select(
        sql.lit(group.number).alias(NUMBER),
        sql.lit(group.rewrite.hour).cast("long").alias(HOUR),
        CONTENT,
    )


def _mapped(session: SparkSession, rows: DataFrame, task: Task) -> DataFrame:
    """Like `DataFrame.mapInArrow`, which needlessly requires pandas."""
    function = UserDefinedFunction(task, COLUMNS, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = function(*(rows[name] for name in rows.columns))
    return DataFrame(rows._jdf.mapInArrow(column._jc, False, None), session)


def rewrite_hours(
    spark: SparkSession,
    store: Store,
    rewrites: Sequence[Rewrite],
    sizes: Mapping[str, int],
    *,
    directory: str,
    target: RowFormat,
    compares_all: bool = False,
    append_above: int = LEAST_ROW_GROUP,
    join_below: int = MOST_BYTES,
) -> tuple[Rewritten, ...]:
    """Writes the new files below the directory, which must not exist. `sizes` are by path.

    With `compares_all`, the values of all files are compared, not only of those that are converted.
    Raises Mismatch if the number of rows or a value changes, or if files have columns that do not
    fit the table's.
    """
    session = rewriting_session(spark)
    paths = [path for rewrite in rewrites for path in rewrite.files]
    old_files = read_columns(session, store, paths, target)
    groups = groups_of(rewrites, sizes, old_files.footers, table_footers(old_files, target))
    parquet_groups = groups if target.format is FileFormat.PARQUET else []
    done_numbers = append(
        spark, store, parquet_groups, f"{directory}/appended", least_row_group=append_above
    )
    small_groups = [
        group
        for group in parquet_groups
        if group.number not in done_numbers and group.largest < join_below
    ]
    done_numbers |= {group.number for group in small_groups}
    other_groups = [group for group in groups if group.number not in done_numbers]
    for number, part in enumerate(_parts(small_groups)):
        join(session, store, part, f"{directory}/joined-{number}", target)
    for number, part in enumerate(_parts(other_groups)):
        _rewrite(session, store, part, f"{directory}/merged-{number}", target)
    new_files = new_files_of(store, directory, groups, store.list_recursively(directory))
    new_paths = [new_file.entry.path for new_file in new_files]
    new_columns = read_columns(session, store, new_paths, target)
    if table_footers(new_columns, target) != new_columns.columns.keys():
        raise Mismatch(f"{directory}: a new file does not have the columns of the table")
    all_footers = {
        store.uri(path): footer
        for files in (old_files, new_columns)
        for path, footer in files.footers.items()
    }
    rows = rows_of(spark, all_footers, target.format)
    rewritten = verified(groups, new_files, lambda path: rows[store.uri(path)], target)
    compared_groups = [
        (group, new_file.entry)
        for group, new_file in zip(groups, new_files, strict=True)
        if compares_all or group.is_converted
    ]
    check_values(session, store, compared_groups, old_files, target)
    return rewritten


def _parts(groups: Sequence[Group]) -> list[Sequence[Group]]:
    return [groups[start : start + MOST_FILES] for start in range(0, len(groups), MOST_FILES)]


def _rewrite(
    session: SparkSession, store: Store, groups: Sequence[Group], directory: str, target: RowFormat
) -> None:
    """Rewrites groups by Spark's own readers and writers."""
    has_lines = target.format is FileFormat.JSON
    columns = columns_of(target)

    def rows(uris: list[str]) -> DataFrame:
        if has_lines:
            return read_lines(session, uris)
        return read(session, uris, target.format, columns)

    column = "merged" if has_lines else _free_name(columns.names)
    frames = [
        rows(list(map(store.uri, group.files)))
        .coalesce(1)
        .withColumn(column, sql.lit(group.number))
        for group in groups
    ]
    united_frame = reduce(DataFrame.union, frames)
    write(united_frame, store.uri(directory), target, by=[column], as_lines=has_lines)


def _free_name(used_names: Iterable[str]) -> str:
    lower_names = {column.lower() for column in used_names}
    name = "merged"
    while name in lower_names:
        name += "_"
    return name

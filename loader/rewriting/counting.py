"""How many rows files hold, as the files themselves say.

Where these say it in their footers, the driver asks them; a job of Spark's that groups the rows by
their file costs 0.1 µs a row and more (measured, 20 columns, 2 cores), and spreads over all
executors, so it is taken where files are many. Of other formats rows are counted.
"""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from loader.config import FileFormat
from loader.rewriting.files import read, read_lines, rewriting_session
from loader.rewriting.footers import Footer, footers

MOST_FOOTERS: Final = 1_000  # that are read for this alone


def count_rows(
    spark: SparkSession,
    uris: Sequence[str],
    format_: FileFormat,
    *,
    most_footers: int = MOST_FOOTERS,
) -> dict[str, int]:
    """The rows of each file."""
    if len(uris) > most_footers:
        return _counted_by_spark(spark, uris, format_)
    return rows_of(spark, footers(spark, uris, format_), format_)


def rows_of(spark: SparkSession, known: dict[str, Footer], format_: FileFormat) -> dict[str, int]:
    """The rows of files whose footers have been read."""
    said = {uri: footer.rows for uri, footer in known.items() if footer.rows is not None}
    silent = [uri for uri in known if uri not in said]
    return said | (_counted_by_spark(spark, silent, format_) if silent else {})


def _counted_by_spark(
    spark: SparkSession, uris: Sequence[str], format_: FileFormat
) -> dict[str, int]:
    session = rewriting_session(spark)
    if format_ is FileFormat.JSON:  # a row is a line: no need to look into it
        rows = read_lines(session, uris)
    else:
        rows = read(session, uris, format_, StructType([]))
    by_file = rows.groupBy(rows.metadataColumn("_metadata").getField("file_path")).count()
    found = {unquote(urlsplit(path).path): rows for path, rows in by_file.collect()}
    path_of = _jvm(spark).org.apache.hadoop.fs.Path
    return {uri: int(found.get(path_of(uri).toUri().getPath(), 0)) for uri in uris}


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm

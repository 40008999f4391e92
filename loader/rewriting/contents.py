"""Reads properties of files of rows: their columns, the number of rows, and the lowest offsets.

Parquet and ORC have columns and row counts in a footer, Avro has the columns at its beginning; the
driver reads these at 5 ms a file (measured on a local disk). Files of JSON lines have no such
information, and need none: they are joined as they are.

Row counts come from footers if there are few files. For many, a Spark job that groups rows by file
costs 0.1 µs a row or more (measured, 20 columns, 2 cores), but is spread over all executors. Rows
of other formats are counted.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from client.producing.delivery import TopicPartition
from loader.config import FileFormat
from loader.rewriting.files import read, read_lines, rewriting_session
from loader.rewriting.groups import Footer

_READERS: Final = 8  # footers that are read at a time
MOST_FOOTERS: Final = 1_000  # that are read just to count rows
_ORIGIN = (
    StructType()
    .add("_topic", StringType())
    .add("_partition", IntegerType())
    .add("_offset", LongType())
)


def footers(spark: SparkSession, uris: Sequence[str], format_: FileFormat) -> dict[str, Footer]:
    footer = _FOOTERS.get(format_)
    if footer is None or not uris:
        return dict.fromkeys(uris, Footer())
    with ThreadPoolExecutor(min(_READERS, len(uris))) as readers:
        return dict(zip(uris, readers.map(lambda uri: footer(spark, uri), uris), strict=True))


def _parquet(spark: SparkSession, uri: str) -> Footer:
    hadoop, parquet = _jvm(spark).org.apache.hadoop, _jvm(spark).org.apache.parquet.hadoop
    file = parquet.util.HadoopInputFile.fromPath(hadoop.fs.Path(uri), _settings(spark))
    reader = parquet.ParquetFileReader.open(file)
    try:
        footer = reader.getFooter()
        # The name before the brace depends on the program that wrote the file.
        columns = footer.getFileMetaData().getSchema().toString().partition("{")[2]
        return Footer(columns, int(reader.getRecordCount()), footer.getBlocks().size())
    finally:
        reader.close()


def _orc(spark: SparkSession, uri: str) -> Footer:
    jvm = _jvm(spark)
    orc = jvm.org.apache.orc.OrcFile
    path = jvm.org.apache.hadoop.fs.Path(uri)
    reader = orc.createReader(path, orc.readerOptions(_settings(spark)))
    try:
        return Footer(reader.getSchema().toJson(), int(reader.getNumberOfRows()))
    finally:
        reader.close()


def _avro(spark: SparkSession, uri: str) -> Footer:
    jvm = _jvm(spark)
    avro = jvm.org.apache.avro
    file = avro.mapred.FsInput(jvm.org.apache.hadoop.fs.Path(uri), _settings(spark))
    reader = avro.file.DataFileReader(file, avro.generic.GenericDatumReader())
    try:
        return Footer(reader.getSchema().toString())
    finally:
        reader.close()


_FOOTERS: Final[dict[FileFormat, Callable[[SparkSession, str], Footer]]] = {
    FileFormat.PARQUET: _parquet,
    FileFormat.ORC: _orc,
    FileFormat.AVRO: _avro,
}


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


def _settings(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState().newHadoopConf()


def count_rows(
    spark: SparkSession,
    uris: Sequence[str],
    format_: FileFormat,
    *,
    most_footers: int = MOST_FOOTERS,
) -> dict[str, int]:
    if len(uris) > most_footers:
        return _counted_by_spark(spark, uris, format_)
    return rows_of(spark, footers(spark, uris, format_), format_)


def rows_of(spark: SparkSession, by_uri: dict[str, Footer], format_: FileFormat) -> dict[str, int]:
    """The number of rows of files whose footers have been read."""
    counts = {uri: footer.rows for uri, footer in by_uri.items() if footer.rows is not None}
    uncounted_uris = [uri for uri in by_uri if uri not in counts]
    return counts | (_counted_by_spark(spark, uncounted_uris, format_) if uncounted_uris else {})


def _counted_by_spark(
    spark: SparkSession, uris: Sequence[str], format_: FileFormat
) -> dict[str, int]:
    session = rewriting_session(spark)
    if format_ is FileFormat.JSON:  # a row is a line: no need to look into it
        rows = read_lines(session, uris)
    else:
        rows = read(session, uris, format_, StructType([]))
    counts_by_file = rows.groupBy(rows.metadataColumn("_metadata").getField("file_path")).count()
    counts_by_path = {unquote(urlsplit(path).path): rows for path, rows in counts_by_file.collect()}
    path_of = _jvm(spark).org.apache.hadoop.fs.Path
    return {uri: int(counts_by_path.get(path_of(uri).toUri().getPath(), 0)) for uri in uris}


def lowest_offsets(
    spark: SparkSession, uris: Sequence[str], format_: FileFormat
) -> dict[TopicPartition, int]:
    """The lowest offset of each partition with rows in these files."""
    if not uris:
        return {}
    rows = read(rewriting_session(spark), uris, format_, _ORIGIN)
    lowest_rows = (
        rows.groupBy("_topic", "_partition").agg(sql.min("_offset").alias("lowest")).collect()
    )
    return {TopicPartition(row["_topic"], row["_partition"]): row["lowest"] for row in lowest_rows}

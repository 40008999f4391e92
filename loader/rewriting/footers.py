"""What files say of themselves: which columns they have, and how many rows, without reading these.

Parquet and ORC say both at their end, Avro the columns at its beginning. The driver asks, at 5 ms a
file (measured, a local disk). Lines of JSON say nothing, and need not: they are joined as they are.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from loader.config import FileFormat

_READERS: Final = 8  # at a time


@dataclass(frozen=True, slots=True)
class Footer:
    """Of one file. Files whose `columns` are the same text have the same columns."""

    columns: str = ""
    rows: int | None = None  # None: it does not say
    row_groups: int = 1


def footers(spark: SparkSession, uris: Sequence[str], format_: FileFormat) -> dict[str, Footer]:
    """Of each file."""
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
        # What is before the brace is a name that whoever wrote the file has given it.
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

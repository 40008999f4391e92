"""DataFrames as files of a table's format."""

import json
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from loader.rewriting.files import options_of
from loader.rewriting.formats import RowFormat


def columns_of(target: RowFormat) -> StructType:
    return StructType.fromJson(json.loads(target.columns))


def write(
    rows: DataFrame,
    directory: str,
    target: RowFormat,
    *,
    by: Sequence[str],
    as_lines: bool = False,
) -> None:
    """In folders by these columns, which are no columns of the files."""
    format_ = "text" if as_lines else target.format.value
    writer = rows.write.mode("append").format(format_).partitionBy(*by)
    writer = writer.option("compression", target.codec).options(**options_of(target.format))
    # Files are named by a manifest, and not by a mark that says that a job has ended.
    writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").save(directory)

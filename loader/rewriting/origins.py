"""Where in the log the rows of files came from, as the rows themselves say."""

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from client.delivery import TopicPartition
from loader.config import FileFormat
from loader.rewriting.files import read, rewriting_session

_ORIGIN = (
    StructType()
    .add("_topic", StringType())
    .add("_partition", IntegerType())
    .add("_offset", LongType())
)


def lowest_offsets(
    spark: SparkSession, uris: Sequence[str], format_: FileFormat
) -> dict[TopicPartition, int]:
    """The lowest offset of each partition that has a row in these files."""
    if not uris:
        return {}
    rows = read(rewriting_session(spark), uris, format_, _ORIGIN)
    found = rows.groupBy("_topic", "_partition").agg(sql.min("_offset").alias("lowest")).collect()
    return {TopicPartition(row["_topic"], row["_partition"]): row["lowest"] for row in found}

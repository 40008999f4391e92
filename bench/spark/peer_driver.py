"""`python -m bench.spark.peer_driver`: loads by Spark's Kafka source and `from_avro`.

A Python with nothing but PySpark runs it. It writes the columns, folders and compression of
Penstock's loader; its other settings make it faster.
"""

import time

from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.functions import col, date_format, expr

from bench.spark.driver_commands import Json, serve

_HEADER_FIELDS = ("time", "host", "app", "source", "seq", "position")
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    # A file per hour stays open, which avoids a sort.
    "spark.sql.maxConcurrentOutputFileWriters": "10000",
    # Eight bytes instead of twelve, and a fifth less processor time.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
# The consumer's defaults are 500 records and 1 MiB.
_CONSUMER = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
}


class _Driver:
    def __init__(self) -> None:
        self._spark: SparkSession | None = None

    def start(self, settings: Json) -> Json:
        builder = SparkSession.builder.appName("bench")
        for key, value in {**_SETTINGS, **settings}.items():
            builder = builder.config(key, value)
        self._spark = builder.getOrCreate()
        return {}

    def load(self, task: Json) -> Json:
        """Loads a topic into a new folder."""
        assert self._spark is not None, "never started"
        start_time = time.perf_counter()
        messages = (
            self._spark.read.format("kafka")
            .option("kafka.bootstrap.servers", task["brokers"])
            .option("subscribe", task["topic"])
            .option("startingOffsets", "earliest")
            .option("endingOffsets", "latest")
            .options(**_CONSUMER)
            .load()
        )
        # Avro's bytes follow a zero and the schema's ID.
        event = from_avro(expr("substring(value, 6)"), task["schema"])
        events = messages.select(event.alias("event"), "topic", "partition", "offset")
        event_time = col("event.header.time")
        rows = events.select(
            *(col(f"event.header.{name}") for name in _HEADER_FIELDS),
            *(col(f"event.{name}") for name in task["fields"]),
            *(col(name).alias(f"_{name}") for name in ("topic", "partition", "offset")),
            date_format(event_time, "yyyy-MM-dd").alias("dt"),
            date_format(event_time, "HH").alias("hour"),
        )
        rows.write.partitionBy("dt", "hour").option("compression", "zstd").parquet(task["folder"])
        return {"seconds": time.perf_counter() - start_time}

    def end(self) -> None:
        if self._spark is not None:
            self._spark.stop()


def main() -> None:
    driver = _Driver()
    try:
        serve({"start": driver.start, "load": driver.load})
    finally:
        driver.end()


if __name__ == "__main__":
    main()

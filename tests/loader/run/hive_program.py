"""Registers tables in a metastore of its own, as a process of its own: `… DIRECTORY`.

Only one session of a process can have a metastore. Says what it has seen, as JSON, in its last
line.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from harness.hadoop.spark_jvm import quick_java
from loader.config import FileFormat
from loader.errors import LoaderError
from loader.run.hive import register
from loader.store.local import LocalStore
from loader.values.tables import Hour, hour_folder
from tests.loader.rewriting.row_files import columns, target, write_rows

SEVEN: Final = Hour(1_795_158_000_000)
EIGHT: Final = Hour(SEVEN + 3_600_000)


def main(directory: Path) -> None:
    spark = _session(directory)
    root = directory / "a root's folder"
    said: dict[str, Any] = {}

    for at, hour in enumerate([SEVEN, EIGHT]):
        write_rows(root / "app.logs" / hour_folder(hour) / "part-0.parquet", range(at, at + 3))
    hidden = (root / "app.logs" / hour_folder(EIGHT)).rename(directory / "hidden")
    _register(spark, root, [SEVEN, EIGHT])
    said["created"] = _seen(spark)
    hidden.rename(root / "app.logs" / hour_folder(EIGHT))
    _register(spark, root, [SEVEN, EIGHT])
    said["another hour"] = _seen(spark)
    _register(spark, root, [], of=columns(order=pa.date32()))
    said["another column"] = _seen(spark)
    _register(spark, root, [], of=columns(count=pa.int64()))
    said["another type"] = _seen(spark)

    # As if Spark had been killed before the hours of days long gone were added.
    for day in range(1, 6):
        for hour in (SEVEN, EIGHT):
            path = root / "app.logs" / hour_folder(Hour(hour - day * 24 * 3_600_000))
            write_rows(path / "part-0.parquet", [10 * day])
    (root / "app.logs" / "dt=2026-11-19" / "hour=07.copy").mkdir()
    (root / "app.logs" / "_common_metadata").touch()
    _register(spark, root, [EIGHT], of=columns(count=pa.int64()))
    said["all hours"] = [row[0] for row in spark.sql("SHOW PARTITIONS default.app_logs").collect()]

    said["elsewhere"] = _error(lambda: _register(spark, directory, [SEVEN]))
    said["another format"] = _error(lambda: _register(spark, root, [], format_=FileFormat.ORC))
    spark.stop()
    print(json.dumps(said))


def _register(
    spark: SparkSession,
    root: Path,
    hours: list[Hour],
    *,
    of: str | None = None,
    format_: FileFormat = FileFormat.PARQUET,
) -> None:
    kept_as = target(format_, of=of)
    store = LocalStore(f"file://{root}")
    register(spark, "default", "app.logs", store=store, target=kept_as, hours=hours)


def _seen(spark: SparkSession) -> dict[str, Any]:
    rows = spark.table("default.app_logs")
    counted = rows.groupBy("dt", "hour").agg({"_offset": "sum"}).orderBy("hour").collect()
    return {
        "columns": {field.name: field.dataType.simpleString() for field in rows.schema},
        "rows": [list(row) for row in counted],
        "counts": [row["count"] for row in rows.orderBy("hour", "_offset").collect()],
    }


def _error(attempt: Callable[[], None]) -> str:
    try:
        attempt()
    except LoaderError as error:
        return str(error)
    return "none"


def _session(directory: Path) -> SparkSession:
    options = (
        f"{quick_java()} -Dderby.system.durability=test"
        f" -Dderby.stream.error.file={directory}/derby.log -Djava.io.tmpdir={directory}"
    )
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": options,
        "spark.local.dir": str(directory),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"file://{directory}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:{directory}/metastore;create=true"
        ),
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
    }
    builder = SparkSession.builder.master("local[1]").enableHiveSupport()
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Reads tables with one version of Spark, or with Hive's SerDe in it, in a Python that has no other
packages.

`… READER FOLDER`, with the tables as JSON on stdin; prints what came of it as JSON, in its last
line. FOLDER is for Spark's own files.
"""

import json
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

Way = Callable[[SparkSession, str, str], DataFrame]


def plain(spark: SparkSession, table: str, folder: str) -> DataFrame:
    return spark.read.parquet(folder)


def through_table(spark: SparkSession, table: str, folder: str) -> DataFrame:
    return of_folder(spark.read.parquet(table), table, folder)


def of_folder(rows: DataFrame, table: str, folder: str) -> DataFrame:
    """The rows of the hour that the folder has, or all if it is the table's."""
    for part in folder.removeprefix(table).split("/"):
        if part:
            rows = rows.where("{} = '{}'".format(*part.split("=")))
    return rows


def row_by_row(spark: SparkSession, table: str, folder: str) -> DataFrame:
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    return through_table(spark, table, folder)


def hive_table(spark: SparkSession, table: str, folder: str) -> DataFrame:
    """Hive's SerDe reads the files, not Spark's reader (a setting of the session)."""
    fields = spark.read.parquet(table).drop("dt", "hour").schema
    columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in fields)
    spark.sql("DROP TABLE IF EXISTS t")
    spark.sql(
        f"CREATE EXTERNAL TABLE t ({columns}) PARTITIONED BY (dt string, hour string)"
        f" STORED AS PARQUET LOCATION 'file://{table}'"
    )
    spark.sql("MSCK REPAIR TABLE t")
    rows = spark.table("t")
    assert "Scan hive" in rows._jdf.queryExecution().executedPlan().toString()
    return of_folder(rows, table, folder)


READERS: dict[str, dict[str, Way]] = {
    "spark": {"yes": plain, "table": through_table, "row by row": row_by_row},
    "hive": {"yes": hive_table},
}
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
HIVE_SETTINGS = {
    "spark.sql.hive.convertMetastoreParquet": "false",
    "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
    "spark.hadoop.hive.metastore.schema.verification": "false",
}


def session(reader: str, scratch: str) -> SparkSession:
    options = f"-Djava.io.tmpdir={scratch} -Dderby.stream.error.file={scratch}/derby.log"
    builder = SparkSession.builder.master("local[1]")
    settings = {
        **SETTINGS,
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": f"file://{scratch}/warehouse",
        "spark.driver.extraJavaOptions": f"{options} -XX:+UseSerialGC -XX:-UsePerfData",
    }
    if reader == "hive":
        database = f"jdbc:derby:{scratch}/metastore;create=true"
        settings |= {**HIVE_SETTINGS, "spark.hadoop.javax.jdo.option.ConnectionURL": database}
        builder = builder.enableHiveSupport()
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def value_of(value: Any) -> Any:
    if isinstance(value, Row):
        return value.asDict()
    return f"{value.normalize():f}" if isinstance(value, Decimal) else value


def main(reader: str, scratch: str) -> None:
    spark = session(reader, scratch)
    outcome: dict[str, dict[str, Any]] = {}
    for name, (table, folder, columns) in json.load(sys.stdin).items():
        ways = outcome[name] = {}
        for way, read in READERS[reader].items():
            spark.conf.set("spark.sql.parquet.enableVectorizedReader", "true")
            try:
                rows = read(spark, table, folder).select(*columns).collect()
                ways[way] = [{column: value_of(row[column]) for column in columns} for row in rows]
            except Exception as error:  # noqa: BLE001  whatever a reader raises
                ways[way] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    spark.stop()
    print(json.dumps(outcome))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

"""A driver, run as a program of its own: what executors with a bare Python can import, and when.

    python -m tests.loader.spark.bare_executors REQUEST

The request and the findings are JSON. It runs one application without the pack and, in the same
JVM, one with it, on both workers. What executors run is defined here, in `__main__`, and so travels
by value; annotations are left unread, for the names in them do not travel.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from loader.spark.job import environment_failure
from loader.spark.packing import pack_environment
from loader.spark.session import INTERPRETER, driver_environment, spark_settings

MODULES = (
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.parquet",
    "aiokafka.record._crecords",
    "pyspark_penstock",  # from here on, the programs are on the path
    "penstock",
    "client.connection",
    "schemas.envelope",
    "wire.records",
    "columns._avro_columns",
    "loader.config",
)


def imported(modules: tuple[str, ...]) -> dict[str, str]:
    """Where each is imported from, or why it is not; and by whom."""
    import importlib  # noqa: PLC0415 (runs in executors)
    import os  # noqa: PLC0415

    found = {"directory": os.getcwd()}  # noqa: PTH109
    for name in modules:
        try:
            found[name] = str(importlib.import_module(name).__file__)
        except ImportError as error:
            found[name] = repr(error)
    return found


def in_tasks(context: SparkContext, tasks: int) -> list[dict[str, str]]:
    """As many tasks at a time as executors have cores together, so that each has one."""

    def look(rows: Iterable[int]) -> Iterator[dict[str, str]]:
        yield imported((*MODULES, "pyspark"))

    return list(context.parallelize(range(tasks), tasks).mapPartitions(look).collect())


def failure(work: Callable[[], object]) -> str:
    """The line that a user gets to see."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 (whatever Spark throws)
        return str(environment_failure(error) or error)
    return "it worked"


def without_pack(context: SparkContext) -> dict[str, Any]:
    def strict(rows: Iterable[int]) -> Iterator[int]:

        yield int(pyarrow.__version__.split(".")[0])

    def job() -> None:
        context.parallelize(range(1), 1).mapPartitions(strict).collect()

    found = {"imported": in_tasks(context, 1), "no module": failure(job)}
    driver, interpreter = context.pythonVer, context.pythonExec
    context.pythonVer = "3.0"
    found["other version"] = failure(job)
    context.pythonVer, context.pythonExec = driver, "/nowhere/python3"
    found["no interpreter"] = failure(job)
    context.pythonExec = interpreter
    return found


def main() -> None:
    request = json.loads(sys.argv[1])
    conf = {**request["conf"], INTERPRETER: request["python"], "spark.task.maxFailures": "1"}
    packed = pack_environment(Path(request["cache"]))
    os.environ.update(driver_environment(packed, request["master"], conf, os.environ))

    def session(extra: dict[str, str]) -> SparkSession:
        settings = SparkConf().setMaster(request["master"]).setAppName("bare executors")
        settings.setAll(list({**conf, **extra}.items()))
        return SparkSession.builder.config(conf=settings).getOrCreate()

    spark = session({"spark.cores.max": "1"})  # one worker
    spark.sparkContext.setLogLevel("OFF")
    findings = {"without": without_pack(spark.sparkContext)}
    spark.stop()

    spark = session(spark_settings(packed, request["master"], conf))
    findings["with"] = {"imported": in_tasks(spark.sparkContext, 2)}
    spark.stop()
    print(json.dumps({**findings, "reused": packed.reused}))


if __name__ == "__main__":
    main()

"""The Spark session of a load: the operator's settings, over those that a load needs."""

import os
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from loader.config import LoaderConfig
from loader.environment.packing import PackedEnvironment
from loader.environment.settings import driver_environment, spark_settings
from loader.job import working
from loader.spark_jvm import start_jvm

# What an operator may change is set before their settings, what must be so after them.
DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.scheduler.mode": "FAIR",
    "spark.driver.memory": "2g",
}
NEEDED: Final = {
    "spark.sql.session.timeZone": "UTC",
    # Pieces come in the order in which files need them: Spark must not sort them.
    "spark.sql.maxConcurrentOutputFileWriters": "10000",
    "spark.sql.sources.partitionOverwriteMode": "static",
    # An hour is a folder, never a number that loses its zero.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}


def open_session(
    config: LoaderConfig,
    sources: Sequence[type[DataSource]],
    packed: PackedEnvironment | None,
    output: int | None = None,
) -> SparkSession:
    """Starts Spark, or raises LoaderError. One at a time in a process.

    What the JVM writes goes to `output`, a file descriptor, or where this process writes.
    """
    asked = config.spark.settings
    os.environ.update(driver_environment(packed, config.spark.master, asked, os.environ))
    settings = {**DEFAULTS, **local(config.spark.master), **asked, **NEEDED}
    if packed is not None:
        settings |= spark_settings(packed, config.spark.master, settings)
    builder = SparkSession.builder.master(config.spark.master).appName(
        f"penstock load {config.root}"
    )
    for key, value in settings.items():
        builder = builder.config(key, value)
    if config.hive is not None:
        builder = builder.enableHiveSupport()
    with working("starting Spark"):
        if output is not None:
            start_jvm({**settings, "spark.master": config.spark.master}, output)
        session = builder.getOrCreate()
    for source in sources:
        session.dataSource.register(source)
    return session


def local(master: str) -> Mapping[str, str]:
    """With tasks in this process, nobody else needs to reach it."""
    if not master.startswith("local"):
        return {}
    return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

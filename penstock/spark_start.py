"""How commands start Spark: with Java, with its output told apart, and with errors of one line."""

import os
from typing import Any, Final

import msgspec

import pyspark_penstock
from cluster.errors import NoJava
from cluster.jars import find_java
from loader.config import LoaderConfig, Spark
from loader.environment.packing import PackedEnvironment
from loader.errors import LoaderError, SparkFailed
from loader.session import open_session
from penstock.spark_output import JAVA_OPTIONS, SparkOutput, quiet_java_options

_SOURCES: Final = [getattr(pyspark_penstock, name) for name in pyspark_penstock.__all__]
_NO_JVM: Final = "JAVA_GATEWAY_EXITED"


def start_spark(
    config: LoaderConfig, packed: PackedEnvironment | None, output: SparkOutput
) -> Any:  # Spark's session: only the loader knows its type
    """Raises LoaderError."""
    check_java()
    try:
        return open_session(_quiet(config), _SOURCES, packed, output=output.descriptor)
    except SparkFailed as error:
        if _NO_JVM not in str(error):
            raise
        raise SparkFailed(f"Spark's JVM did not start: {output.why_it_ended()}") from error


def check_java() -> None:
    """Raises LoaderError if there is none."""
    try:
        find_java()
    except NoJava:
        raise LoaderError(
            "Spark needs Java 17 or newer, and there is none on the PATH nor in JAVA_HOME: "
            "apt install openjdk-17-jre-headless"
        ) from None


def _quiet(config: LoaderConfig) -> LoaderConfig:
    asked = config.spark.settings.get(JAVA_OPTIONS, "")
    options = quiet_java_options(asked, os.environ)
    spark = Spark(master=config.spark.master, conf={**config.spark.conf, JAVA_OPTIONS: options})
    return msgspec.structs.replace(config, spark=spark)

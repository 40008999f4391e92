"""Java options for Spark JVMs that start quickly and cost little."""

import functools
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyspark

from harness.java.class_archives import with_archive

SMALL: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
# It takes 20 seconds on an idle machine, and minutes while eight suites start at once.
_PATIENCE_SECONDS: Final = 300.0

# What Spark does in most loads.
_TRAINING: Final = """
import sys
from pyspark import SparkContext
from pyspark.sql import SparkSession

folder, options = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for key, value in {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": options,
    "spark.local.dir": folder,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.warehouse.dir": f"file:{folder}",
}.items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
rows = session.range(100).selectExpr("id", "id % 7 as seventh", "array(string(id)) as words")
rows.repartition(2).write.partitionBy("seventh").parquet(f"{folder}/rows")
read = session.read.parquet(f"{folder}/rows")
read.groupBy("seventh").count().join(rows, "seventh").orderBy("id").collect()
session.stop()
gateway = SparkContext._gateway
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


def quick_java() -> str:
    """Returns options for `spark.driver.extraJavaOptions`."""
    return f"{SMALL} {_with_archive()}"


def quick_java_environment() -> dict[str, str]:
    """Returns the environment for programs with Java options of their own, such as `penstock
    up`."""
    return {"JDK_JAVA_OPTIONS": _with_archive()}


@functools.cache
def _with_archive() -> str:
    spark = (pyspark.__file__, pyspark.__version__)
    return " ".join(with_archive("spark-classes", spark, _train))


def _train(folder: Path, options: tuple[str, ...]) -> bool:
    """Returns whether the training ended in time."""
    java = " ".join((SMALL, *options, f"-Djava.io.tmpdir={folder}"))
    training = subprocess.Popen(
        [sys.executable, "-c", _TRAINING, str(folder), java],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # so that its JVM ends with it
    )
    try:
        return training.wait(_PATIENCE_SECONDS) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(training.pid, signal.SIGKILL)
        training.wait()

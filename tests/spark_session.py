"""A Spark session for tests: `local[2]`, one for each test process, with a JVM that ends with it.

What a session keeps on disk lies below the tests' temporary directory. Executors are Python workers
of this interpreter, and import what the tests import.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from cluster.errors import EmbeddedError
from cluster.jars import find_java
from harness.spark_jvm import quick_java
from tests.told_secrets import EVENTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT: Final = Path(__file__).resolve().parent.parent
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    # Tests' rows are few: Spark would compile Java for longer than it runs.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.maxConcurrentOutputFileWriters": "10000",
    "spark.sql.warehouse.dir": "file:/nowhere",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session")
def spark(
    nothing_is_left_behind: None, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[SparkSession]":
    # Here, not above: whoever only starts the tests, as the controller of workers does, is spared
    # half a second.
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from pyspark_penstock.landing import LandingSource  # noqa: PLC0415

    try:
        find_java()
    except EmbeddedError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("spark")
    events = folder / EVENTS  # with all plans: no secret may be in them
    events.mkdir()
    before = {
        name: os.environ.get(name) for name in ("PYSPARK_PYTHON", "PYTHONPATH", "SPARK_LOCAL_IP")
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # whatever the host's name is worth
    # Planning workers and executors find the repository as the tests do.
    os.environ["PYTHONPATH"] = str(ROOT)
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = (
        builder.config("spark.local.dir", str(folder))
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", events.as_uri())
        .config("spark.driver.extraJavaOptions", f"{quick_java()} -Djava.io.tmpdir={folder}")
        .getOrCreate()
    )
    # The JVM has them now, and starts Python with them; nobody else is to see them.
    for name, old in before.items():
        os.environ.pop(name, None)
        if old is not None:
            os.environ[name] = old
    session.dataSource.register(LandingSource)
    try:
        yield session
    finally:
        end_spark(session)


def end_spark(session: "SparkSession") -> None:
    """Stops the session and its JVM; returns when that has ended."""
    from pyspark import SparkContext  # noqa: PLC0415

    session.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    process.wait(timeout=60)
    SparkContext._gateway = None
    SparkContext._jvm = None

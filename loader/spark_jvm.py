"""Spark's JVM as a child of this process, and how its jobs and its session are ended.

There is one in a process, for all sessions that come one after the other. It ends with this
process, however that ends: when its stdin does.
"""

import contextlib
import subprocess
from collections.abc import Mapping
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

PATIENCE_SECONDS: Final = 20.0  # Spark's own clean-up, when the JVM ends


def start_jvm(settings: Mapping[str, str], output: int) -> None:
    """Unless it runs. What it and its children write goes to the file descriptor.

    It is in a session of its own: Ctrl-C in a terminal reaches this process, and not the tasks.
    """
    if SparkContext._gateway is not None:
        return
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    how = {"stdout": output, "stderr": output, "start_new_session": True}
    gateway = launch_gateway(conf, how)  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)


def cancel_jobs(session: SparkSession) -> None:
    """Those that run now; nothing if Spark is gone."""
    with contextlib.suppress(Py4JError, PySparkException, OSError):
        session.sparkContext.cancelAllJobs()


def end_session(session: SparkSession) -> None:
    """Executors and tokens are given back. Whatever is wrong with Spark, it has ended then."""
    with contextlib.suppress(Py4JError, PySparkException, OSError):
        session.stop()


def end_jvm() -> None:
    """If there is one. Returns when it is gone."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    process = gateway.proc
    with contextlib.suppress(Py4JError, OSError):
        gateway.shutdown()
    process.stdin.close()
    try:
        process.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None

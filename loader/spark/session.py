"""The Spark session of a load: the operator's settings, over those that a load needs, and those
with which executors and planning find Python and what they import. Its JVM is a child of this
process.

Rule 1: Spark unpacks the archive into the directory in which an executor works, and its Python
processes with it: a relative path leads there. It stands behind Spark's own on their path.

Rule 2: the interpreter that the driver names is the one that executors start, and the one that
Spark starts on the driver's host to plan: a data source's schema and partitions are found there, in
a process whose path comes from the environment of the JVM. So the environment must be set before
the JVM is started.

Rule 3: what the user has set stays; archives and paths are added to.

Rule 4: where all of it runs in one JVM, loopback is its address. Spark would ask for that of the
host's own name, and not start where the name has none.

Rule 5: there is one JVM in a process, for all sessions that come one after the other. It ends with
this process, however that ends: when its stdin does.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from loader.config import LoaderConfig
from loader.errors import EnvironmentFailed
from loader.kerberos import for_tokens, log_in
from loader.spark.job import working
from loader.spark.packing import PackedEnvironment, runs_here

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
UNPACKED: Final = "penstock-environment"
ARCHIVES: Final = "spark.archives"
EXECUTORS_PATH: Final = "spark.executorEnv.PYTHONPATH"
INTERPRETER: Final = "spark.pyspark.python"
LOCAL_ADDRESS: Final = "SPARK_LOCAL_IP"
PATIENCE_SECONDS: Final = 20.0  # Spark's own clean-up, when the JVM ends


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
    kerberos = config.kerberos
    if packed is not None:
        settings |= spark_settings(packed, config.spark.master, settings)
    builder = SparkSession.builder.master(config.spark.master).appName(
        f"penstock load {config.root}"
    )
    for key, value in settings.items():
        builder = builder.config(key, value)
    if config.hive is not None:
        builder = builder.enableHiveSupport()
    if kerberos is not None:
        for key, value in for_tokens(kerberos).items():
            builder = builder.config(key, value)
    with working("starting Spark"):
        if output is not None or kerberos is not None:
            start_jvm({**settings, "spark.master": config.spark.master}, output)
        if kerberos is not None:
            log_in(SparkContext._jvm, kerberos, settings)
        session = builder.getOrCreate()
    for source in sources:
        session.dataSource.register(source)
    return session


def local(master: str) -> Mapping[str, str]:
    """With tasks in this process, nobody else needs to reach it."""
    if not master.startswith("local"):
        return {}
    return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def spark_settings(
    packed: PackedEnvironment, master: str, conf: Mapping[str, str]
) -> dict[str, str]:
    """To be set over `conf`, the user's: the same on standalone, YARN and Kubernetes."""
    if runs_here(master):
        return {}
    archive = f"{packed.path.as_uri()}#{UNPACKED}"
    return {
        ARCHIVES: ",".join(each for each in (conf.get(ARCHIVES), archive) if each),
        EXECUTORS_PATH: ":".join(each for each in (UNPACKED, conf.get(EXECUTORS_PATH)) if each),
    }


def driver_environment(
    packed: PackedEnvironment | None,
    master: str,
    conf: Mapping[str, str],
    environ: Mapping[str, str],
) -> dict[str, str]:
    """Variables that this process must have before it starts Spark's JVM.

    Without a pack, executors of a cluster have an environment of their own, and the user says
    which interpreter knows it.
    """
    if runs_here(master):
        address = environ.get(LOCAL_ADDRESS, "127.0.0.1")
        return {**_interpreter(sys.executable), LOCAL_ADDRESS: address}
    asked = conf.get(INTERPRETER) or environ.get("PYSPARK_PYTHON")
    if packed is None:
        return _interpreter(asked) if asked else {}
    interpreter = asked or f"python{packed.python_version}"
    if shutil.which(interpreter, path=environ.get("PATH")) is None:
        raise EnvironmentFailed(
            f"`{interpreter}`, which executors are to run, is not on this host: Spark plans with "
            f"it here too. Set {INTERPRETER} to a Python {packed.python_version} that is found "
            "on this host and on every executor's"
        )
    before = environ.get("PYTHONPATH", "").split(":")
    # Each once: this process may have been told before, for a session that has ended.
    path = dict.fromkeys([*map(str, packed.driver_path), *before])
    return {**_interpreter(interpreter), "PYTHONPATH": ":".join(each for each in path if each)}


def _interpreter(name: str) -> dict[str, str]:
    """Spark looks data sources up with the driver's, and then has executors run it."""
    return {"PYSPARK_PYTHON": name, "PYSPARK_DRIVER_PYTHON": name}


def start_jvm(settings: Mapping[str, str], output: int | None) -> None:
    """Unless it runs. What it and its children write goes to the file descriptor, or where this
    process writes.

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


def end_jvm(patience: float = 0.0) -> bool:
    """If there is one. Returns when it is gone: whether it came to its end in peace. `patience`:
    seconds that it may take besides."""
    gateway = SparkContext._gateway
    if gateway is None:
        return True
    process = gateway.proc
    with contextlib.suppress(Py4JError, OSError):
        gateway.shutdown()
    process.stdin.close()
    try:
        process.wait(PATIENCE_SECONDS + patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
    return bool(process.returncode == 0)

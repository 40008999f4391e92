"""Starts the Spark session of a load, with the operator's settings, those that a load needs, and
those with which executors and planning find Python and its imports. The JVM is a child of this
process.

Rule 1: Spark unpacks the archive into an executor's working directory, from which its Python
        processes start: a relative path leads there. It comes after Spark's own code on their path.
Rule 2: the interpreter that the driver names is started by executors, and by Spark on the driver's
        host for planning: a data source's schema and partitions are determined there, in a process
        whose path comes from the JVM's environment. So the environment must be set before the JVM
        starts.
Rule 3: the user's settings stay; archives and paths are appended to them.
Rule 4: if everything runs in one JVM, its address is loopback. Otherwise Spark would look up the
        host's own name, and fail if it has none.
Rule 5: a process has one JVM, for all consecutive sessions. It ends when this process ends, no
        matter how: when its stdin is closed.
"""

import contextlib
import logging
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
from loader.spark.java_classes import spark_jars
from loader.spark.job import working
from loader.spark.packing import PackedEnvironment, runs_here
from loader.spark.staging import StagedFile, StagingFolder, archive_name
from loader.store.filesystems import hadoop_configuration
from loader.store.kerberos import for_tokens, log_in

# DEFAULTS may be overridden by the operator's settings, NEEDED may not.
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
    # `hour=07` must stay a string, not become the number 7.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
YARN: Final = "yarn"
UNPACKED: Final = "penstock-environment"
ARCHIVES: Final = "spark.archives"
YARN_ARCHIVES: Final = "spark.yarn.dist.archives"
# Where YARN finds Spark's jars; without any of them, each application uploads its own.
YARN_SPARK: Final = "spark.yarn.archive"
YARN_JARS: Final = "spark.yarn.jars"
EXECUTORS_PATH: Final = "spark.executorEnv.PYTHONPATH"
INTERPRETER: Final = "spark.pyspark.python"
LOCAL_ADDRESS: Final = "SPARK_LOCAL_IP"
PATIENCE_SECONDS: Final = 20.0  # for Spark's own clean-up when the JVM ends

log = logging.getLogger(__name__)


def open_session(
    config: LoaderConfig,
    sources: Sequence[type[DataSource]],
    packed: PackedEnvironment | None,
    output: int | None = None,
) -> SparkSession:
    """Starts Spark, or raises LoaderError. A process has one session at a time.

    The JVM's output goes to the file descriptor `output`, or to that of this process.
    """
    settings = _prepared(config, packed)
    kerberos = config.kerberos
    with working("starting Spark"):
        if output is not None or kerberos is not None or config.spark.staged:
            _start_jvm_and_log_in(config, settings, output)
        if config.spark.staged:
            settings |= staged_settings(_staging_folder(config, settings), packed, settings)
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
        session = builder.getOrCreate()
    for source in sources:
        session.dataSource.register(source)
    return session


def stage(
    config: LoaderConfig, packed: PackedEnvironment | None, output: int | None = None
) -> list[StagedFile]:
    """Copies Spark's jars, and the pack if there is one, to `spark.staged`, without a session.
    Raises LoaderError."""
    settings = _prepared(config, None)
    with working("copying Spark"):
        _start_jvm_and_log_in(config, settings, output)
        folder = _staging_folder(config, settings)
        files = [folder.stage_spark(spark_jars(os.environ))]
        return files if packed is None else [*files, folder.stage_pack(packed)]


def _prepared(config: LoaderConfig, packed: PackedEnvironment | None) -> dict[str, str]:
    """Sets this process's environment, and returns Spark's settings."""
    spark = config.spark
    os.environ.update(driver_environment(packed, spark.master, spark.settings, os.environ))
    settings = {**DEFAULTS, **local(spark.master), **spark.settings, **NEEDED}
    if packed is not None:
        settings |= spark_settings(packed, spark.master, settings)
    return settings


def _start_jvm_and_log_in(
    config: LoaderConfig, settings: Mapping[str, str], output: int | None
) -> None:
    start_jvm({**settings, "spark.master": config.spark.master}, output)
    if config.kerberos is not None:
        log_in(SparkContext._jvm, config.kerberos, settings)


def _staging_folder(config: LoaderConfig, settings: Mapping[str, str]) -> StagingFolder:
    """The folder, through the running JVM."""
    configuration = hadoop_configuration(SparkContext._jvm, settings)
    return StagingFolder(config.spark.staged, SparkContext._gateway, configuration)


def staged_settings(
    folder: StagingFolder, packed: PackedEnvironment | None, settings: Mapping[str, str]
) -> dict[str, str]:
    """Settings that name what is in the folder, instead of what the load would upload."""
    staged: dict[str, str] = {}
    if not settings.get(YARN_SPARK) and not settings.get(YARN_JARS):
        if (spark := folder.find(archive_name(spark_jars(os.environ)))) is not None:
            staged[YARN_SPARK] = spark.uri
        else:
            log.warning("uploading Spark, which is not staged: run `penstock load --stage-spark`")
    if packed is not None:
        if (pack := folder.find(packed.path.name)) is not None:
            archives = settings[YARN_ARCHIVES].replace(packed.path.as_uri(), pack.uri)
            staged[YARN_ARCHIVES] = archives
        else:
            log.warning(
                "uploading the environment, which is not staged: run `penstock load --stage-spark "
                "--pack-env`"
            )
    return staged


def local(master: str) -> Mapping[str, str]:
    """Settings for tasks in this process, which other hosts need not reach."""
    if not master.startswith("local"):
        return {}
    return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def spark_settings(
    packed: PackedEnvironment, master: str, conf: Mapping[str, str]
) -> dict[str, str]:
    """Settings that extend the user's `conf`."""
    if runs_here(master):
        return {}
    archive = f"{packed.path.as_uri()}#{UNPACKED}"
    # YARN fetches these itself, also from HDFS, and keeps them on its nodes.
    archives = YARN_ARCHIVES if master == YARN else ARCHIVES
    return {
        archives: ",".join(path for path in (conf.get(archives), archive) if path),
        EXECUTORS_PATH: ":".join(path for path in (UNPACKED, conf.get(EXECUTORS_PATH)) if path),
    }


def driver_environment(
    packed: PackedEnvironment | None,
    master: str,
    conf: Mapping[str, str],
    environ: Mapping[str, str],
) -> dict[str, str]:
    """Variables that this process must have before it starts Spark's JVM.

    Without a pack, a cluster's executors have an environment of their own, and the user names the
    interpreter.
    """
    if runs_here(master):
        address = environ.get(LOCAL_ADDRESS, "127.0.0.1")
        return {**_interpreter(sys.executable), LOCAL_ADDRESS: address}
    interpreter_setting = conf.get(INTERPRETER) or environ.get("PYSPARK_PYTHON")
    if packed is None:
        return _interpreter(interpreter_setting) if interpreter_setting else {}
    interpreter = interpreter_setting or f"python{packed.python_version}"
    if shutil.which(interpreter, path=environ.get("PATH")) is None:
        raise EnvironmentFailed(
            f"`{interpreter}`, the executors' interpreter, is not on this host, where Spark needs "
            f"it for planning: set {INTERPRETER} to a Python {packed.python_version} that exists "
            "on this host and on every executor's"
        )
    existing_paths = environ.get("PYTHONPATH", "").split(":")
    # Without duplicates: this process may have had a session before.
    path = dict.fromkeys([*map(str, packed.driver_path), *existing_paths])
    return {**_interpreter(interpreter), "PYTHONPATH": ":".join(filter(None, path))}


def _interpreter(name: str) -> dict[str, str]:
    """Spark looks up data sources with the driver's interpreter, and then lets executors run it."""
    return {"PYSPARK_PYTHON": name, "PYSPARK_DRIVER_PYTHON": name}


def start_jvm(settings: Mapping[str, str], output: int | None) -> None:
    """Starts the JVM unless it is running. Its output, and that of its children, goes to the file
    descriptor, or to the output of this process.

    The JVM has a session of its own: Ctrl-C in a terminal reaches this process, but not the tasks.
    """
    if SparkContext._gateway is not None:
        return
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    popen_arguments = {"stdout": output, "stderr": output, "start_new_session": True}
    gateway = launch_gateway(conf, popen_arguments)  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)


def end_jvm(patience: float = 0.0) -> bool:
    """Ends the JVM if there is one, and waits up to `patience` additional seconds. Returns whether
    it exited by itself."""
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

"""A standalone cluster whose workers have a bare Python, files on HDFS, and executors that die.

Python workers and whole executors get SIGKILL at random moments. A load that this is too much for
ends with an error, and the next one makes up for it; nothing is there twice, in either case.
HYPOTHESIS_PROFILE=fuzz has more of all of it.
"""

import contextlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from harness.hadoop.hdfs import RunningHdfs
from harness.hadoop.spark_cluster import WORKERS, SparkCluster
from loader.config import LoaderConfig, Tasks
from tests.loader.application import BEGAN, HOUR, Application, landed
from tests.loader.loads import load_once, rows_of
from tests.system.loader.programs import LoadProgram, reported
from tests.system.loader.spark_processes import python_workers

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.fuzz, pytest.mark.timeout(600)]

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
EVENTS, TASKS = (100_000, 40) if LONG else (24_000, 24)
KILLED_WORKERS, KILLED_EXECUTORS = (3, 2) if LONG else (2, 1)


@pytest.fixture
def on_hdfs(config: LoaderConfig, hdfs_root: str) -> LoaderConfig:
    return msgspec.structs.replace(
        config,
        root=hdfs_root,
        tasks=Tasks(records=EVENTS // TASKS, without_spark=0),
    )


@pytest.fixture
def program(
    spark_cluster: SparkCluster, hdfs: RunningHdfs, on_hdfs: LoaderConfig, tmp_path: Path
) -> LoadProgram:
    conf = {
        **spark_cluster.conf,
        **{f"spark.hadoop.{key}": value for key, value in hdfs.configuration.items()},
        "spark.pyspark.python": str(spark_cluster.python),
    }
    return LoadProgram(on_hdfs, tmp_path, master=spark_cluster.master, conf=conf)


def executors(cluster: SparkCluster) -> list[int]:
    return [pid for worker in range(WORKERS) for pid in cluster.executors(worker)]


def workers(cluster: SparkCluster) -> list[int]:
    return python_workers(executors(cluster))


def kill_some(cluster: SparkCluster, load: subprocess.Popen[str], chance: random.Random) -> int:
    """While the load runs. How many were killed."""
    victims = [workers] * KILLED_WORKERS + [executors] * KILLED_EXECUTORS
    chance.shuffle(victims)
    killed = 0
    while victims and load.poll() is None:
        if alive := victims[-1](cluster):
            victims.pop()
            time.sleep(chance.random() * (1.0 if LONG else 0.6))
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(alive), signal.SIGKILL)
                killed += 1
        time.sleep(0.02)
    return killed


def test_everything_lands_once_although_executors_die(
    spark: SparkSession,
    spark_cluster: SparkCluster,
    application: Application,
    on_hdfs: LoaderConfig,
    program: LoadProgram,
) -> None:
    seed = random.SystemRandom().getrandbits(32)
    application.write(EVENTS // 2, time=BEGAN, step=200)
    application.write(EVENTS // 2, time=BEGAN + HOUR, step=2, partition=1)
    with program.start("--pack-env") as load:
        try:
            killed = kill_some(spark_cluster, load, random.Random(seed))
            output, _ = load.communicate(timeout=300)
        finally:
            load.kill()
    code = load.returncode
    print(seed, killed, code, output, program.said)
    assert killed > 0, program.said
    if code != 0:
        assert (code, reported(output)["seconds"]) == (7, "failed"), (seed, program.said)
        code, output = program.run("--pack-env")
    assert code == 0, (seed, program.said)
    row = reported(output)
    assert row["seconds"] != "failed"
    assert (row["table"], row["rows"], row["dead"]) == (application.topic, f"{EVENTS}", "0")
    assert landed(rows_of(spark, on_hdfs, application.topic)) == sorted(application.written)

    assert load_once(spark, on_hdfs).did_nothing

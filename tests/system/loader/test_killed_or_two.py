"""A driver that is killed at any moment.

HYPOTHESIS_PROFILE=fuzz kills more of them. tests/loader/commit kills loaders at every single step,
without Spark, and lets two work at the same time.
"""

import os
import random
import time
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from harness.hadoop.spark_jvm import quick_java
from harness.processes.waiting import wait_until
from loader.commit.commit_log import CommitLog
from loader.config import LoaderConfig, Tasks
from loader.store.local import LocalStore
from tests.loader.application import BEGAN, HOUR, Application, landed
from tests.loader.loads import load_once, rows_of
from tests.system.loader.programs import LoadProgram

# Steps that a load tells of, and how long after the last of them, at most, it is killed: while it
# lands slices, while it counts rows and commits, while it publishes and closes hours.
MOMENTS = ((1, 2.0), (2, 0.3), (4, 0.1))
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"


@pytest.fixture
def small(config: LoaderConfig) -> LoaderConfig:
    """Many tasks, and hours that are closed at once."""
    return msgspec.structs.replace(config, tasks=Tasks(records=100, without_spark=0))


def there_once(spark: SparkSession, config: LoaderConfig, application: Application) -> None:
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)
    commit_log = CommitLog(LocalStore(config.root), application.topic)
    latest = commit_log.latest()
    assert latest is not None
    assert sum(state.rows for state in latest.hours.values()) == len(application.written)
    assert commit_log.listed().unpublished == []


def steps(program: LoadProgram) -> int:
    """How many the load that was started last has told of, from its plan on."""
    return program.said.count(" table=")


def moments(chance: random.Random) -> list[tuple[int, float]]:
    """Each once and again; else while it lands slices, and one of the later ones."""
    return [*MOMENTS, *MOMENTS] if LONG else [MOMENTS[0], chance.choice(MOMENTS[1:])]


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(300)
def test_a_driver_is_killed_at_any_moment(
    spark: SparkSession, application: Application, small: LoaderConfig, tmp_path: Path
) -> None:
    chance = random.Random(random.SystemRandom().getrandbits(32))
    conf = {"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": quick_java()}
    program = LoadProgram(small, tmp_path, master="local[2]", conf=conf)
    for turn, (told, seconds) in enumerate(moments(chance)):
        application.write(500, time=BEGAN + turn * HOUR, step=20)
        application.write(500, time=BEGAN, step=20, partition=1)
        with program.start() as killed:
            wait_until(
                lambda told=told, killed=killed: (
                    steps(program) >= told or killed.poll() is not None
                ),
                within=300,
                what=f"step {told}",
                every=0.005,
            )
            time.sleep(chance.random() * seconds)
            killed.kill()
        assert "table done" not in program.said or told > 2
    # What is left of the last one's JVM may still be at it.
    load_once(spark, small)
    there_once(spark, small, application)
    assert load_once(spark, small).did_nothing

"""Loads on YARN, with all files on HDFS: with Spark from a staging folder, and without."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest
from pyspark.sql import SparkSession

from harness.hadoop.hdfs import RunningHdfs
from harness.hadoop.yarn import EXECUTOR, EXECUTORS, QUEUE, RunningYarn
from harness.processes.waiting import wait_until
from loader.config import LoaderConfig, Tasks
from tests.loader.application import BEGAN, HOUR, Application, landed
from tests.system.loader.programs import LoadProgram, reported

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(7200)]

EVENTS: Final = 2_000
MOST_UPLOADED: Final = 20_000_000  # of bytes, with what Spark uploads in any case, and rows


@pytest.fixture
def program(
    yarn: RunningYarn, config: LoaderConfig, hdfs_root: str, tmp_path: Path
) -> Callable[[str], LoadProgram]:
    """Loads with a staging folder, or without."""
    tasks = Tasks(records=EVENTS // 4, without_spark=0)
    told = msgspec.structs.replace(config, root=hdfs_root, tasks=tasks)

    def of(staged: str) -> LoadProgram:
        return LoadProgram(
            told,
            tmp_path,
            master="yarn",
            conf=yarn.conf,
            environment=yarn.environment,
            staged=staged,
        )

    return of


def test_spark_is_uploaded_once(  # noqa: PLR0917
    spark: SparkSession,
    hdfs: RunningHdfs,
    hdfs_root: str,
    yarn: RunningYarn,
    application: Application,
    program: Callable[[str], LoadProgram],
) -> None:
    """And so is the environment. Executors have a bare Python, and what loads ship."""
    staging = program(f"{hdfs_root}-apps")
    for turn, load in enumerate((program(""), staging)):
        application.write(EVENTS // 2, time=BEGAN + turn * HOUR, step=200)
        application.write(EVENTS // 2, time=BEGAN, step=2, partition=1)
        if load is staging:
            states = [_staged(load), _staged(load)]
            assert states == [["uploaded"] * 2, ["exists"] * 2]
        before, began = hdfs.bytes_written(), time.monotonic()
        code, output = load.run("--pack-env")
        uploaded, seconds = hdfs.bytes_written() - before, time.monotonic() - began
        print(f"{uploaded:,} bytes uploaded, {seconds:.0f} s", load.said)
        assert code == 0, load.said
        assert reported(output)["rows"] == f"{EVENTS}"
        assert (uploaded < MOST_UPLOADED) is (load is staging), uploaded
        assert ("which is not staged" in load.said) is False
    rows = spark.read.parquet(f"{hdfs_root}/{application.topic}").collect()
    assert landed(rows) == sorted(application.written)
    scripts = [path.read_text() for path in yarn.directory.glob("logs/*/*/launch_container.sh")]
    executors = [script for script in scripts if EXECUTOR in script]
    # The driver's path comes after the pack, which has all that an executor imports.
    assert len(executors) >= 2 * EXECUTORS
    assert all('export PYTHONPATH="penstock-environment:' in script for script in executors)
    applications = yarn.applications("FINISHED")
    assert {each["queue"] for each in applications} == {f"root.{QUEUE}"}
    assert [each["finalStatus"] for each in applications[-2:]] == ["SUCCEEDED"] * 2
    wait_until(lambda: yarn.containers() == [], what="containers end")


def _staged(load: LoadProgram) -> list[str]:
    code, output = load.run("--stage-spark", "--pack-env", "--json")
    assert code == 0, load.said
    return [json.loads(line)["state"] for line in output.splitlines()]

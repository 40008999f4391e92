"""Whole loads into S3: what lands, who commits, and how many requests that takes."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from harness.hadoop.s3 import RunningS3
from loader.config import LoaderConfig, Tasks
from loader.errors import RunTaken
from loader.run.load_context import LoadRequest
from loader.run.spark_work import SparkWork
from loader.values.tables import Hour
from tests.loader.application import BEGAN, HOUR, Application, landed
from tests.loader.loads import EITHER_WAY, load_once, outcome_of

pytestmark = pytest.mark.long


@pytest.fixture
def config(config: LoaderConfig, s3: RunningS3) -> LoaderConfig:
    return replace(config, root=f"{s3.uri}/{uuid.uuid4().hex}")


def landed_in(spark: SparkSession, config: LoaderConfig, table: str) -> list[tuple[str, int]]:
    """Source and seq of every visible row, ordered."""
    store = SparkWork(spark).store(config.root)
    return landed(
        [
            row
            for entry in store.list_recursively(table)
            if entry.name.startswith("part-")
            for row in pq.read_table(pa.BufferReader(store.read(entry.path))).to_pylist()
        ]
    )


@pytest.mark.parametrize("tasks", EITHER_WAY.values(), ids=EITHER_WAY)
def test_everything_lands_once(
    spark: SparkSession, application: Application, config: LoaderConfig, tasks: Tasks
) -> None:
    config = replace(config, tasks=replace(tasks, records=400))
    application.write(1_000, step=3_600)  # an hour
    application.write(500, time=BEGAN + HOUR, partition=1)
    first = load_once(spark, config)
    assert (first.rows, len(first.complete)) == (1_500, 2)
    application.write(10)
    assert load_once(spark, config).rows == 10
    assert load_once(spark, config).did_nothing
    rebuilt = load_once(spark, config, LoadRequest(rebuild=(Hour(BEGAN),)))
    assert rebuilt.rebuilt == {BEGAN: 1_010}
    assert landed_in(spark, config, application.topic) == sorted(application.written)


def test_of_two_loaders_one_commits(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    """As on two hosts: by another name of the root, neither sees the other's lock."""
    other = replace(config, root=config.root.replace("://lake/", "://lake//"))
    for _ in range(5):
        application.write(10)
        with ThreadPoolExecutor(2) as threads:
            outcomes = threads.map(partial(outcome_of, spark), (config, other))
            errors = [outcome.error for outcome in outcomes]
        assert all(error is None or isinstance(error, RunTaken) for error in errors), errors
        assert None in errors
    assert landed_in(spark, config, application.topic) == sorted(application.written)


def test_requests(
    spark: SparkSession, application: Application, config: LoaderConfig, s3: RunningS3
) -> None:
    """No more than the documentation says, and for each second one look at what others have done.
    The first load finds an empty root, the last one nothing new."""
    for events, most in ((10, 60), (10, 59), (0, 29)):
        if events:
            application.write(events)
        before, began = s3.requests(), time.monotonic()
        load_once(spark, config)
        count = s3.requests() - before
        assert count.total() <= most + 3 * int(time.monotonic() - began), count

"""What the driver lands itself is what tasks would have, in the same places; and what is too large
for it is left to them."""

import random

import msgspec
import pytest
from pyspark.sql import SparkSession

from loader.config import LoaderConfig
from loader.landing.task_spec import landing_job
from loader.landing.without_spark import AS_RECORDS, is_little
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.run.spark_work import SparkWork
from loader.values.tables import Hour, hour_folder
from tests.loader.application import BEGAN, HOUR, Application, landed
from tests.loader.landing.decoded_batches import a_slice, a_spec
from tests.loader.loads import EITHER_WAY, Listening, folder_of, load_once, no_spark, rows_of

HOURS = (Hour(BEGAN), Hour(BEGAN + HOUR))


def test_both_ways_load_and_rebuild_to_the_same_files(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    """Equal bytes: so rows, columns and statistics are equal, and so are the names."""
    application.write(1_000, time=BEGAN)
    application.write(500, time=BEGAN + 1_000, partition=1)
    application.write(7, time=BEGAN + HOUR)
    files = []
    for way, tasks in EITHER_WAY.items():
        start = no_spark if way == "without Spark" else (lambda: SparkWork(spark))
        config = msgspec.structs.replace(config, root=f"{config.root}_", tasks=tasks)
        (outcome,) = load(config, LoadRequest(), start, Listening())
        assert (outcome.error, outcome.rows) == (None, 1_507)
        folders = [folder_of(config, application.topic, hour_folder(hour)) for hour in HOURS]
        (spoilt,), (gone,) = (folder.glob("part-*.parquet") for folder in folders)
        spoilt.write_bytes(spoilt.read_bytes()[:-50])
        gone.unlink()
        (outcome,) = load(config, LoadRequest(rebuild=HOURS), start, listening := Listening())
        assert (outcome.error, outcome.rows) == (None, 1_507)
        assert (outcome.rebuilt, outcome.waiting) == ({HOURS[0]: 1_500, HOURS[1]: 7}, {})
        assert all((folder / "_SUCCESS").exists() for folder in folders)
        assert [f"{spoilt.name} is unreadable" in text for text in listening.warnings] == [True]
        assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)
        parts = [part for folder in folders for part in folder.glob("part-*")]
        files.append({part.relative_to(folder_of(config)): part.read_bytes() for part in parts})
    assert len(files[0]) == len(HOURS)
    assert files[0] == files[1]


def test_what_is_little() -> None:
    pieces = [a_slice(0, 500, number=number) for number in range(2)]
    job = landing_job(a_spec(), [pieces], {})
    assert is_little(job, 2 * (500 + AS_RECORDS))
    assert not is_little(job, 2 * (500 + AS_RECORDS) - 1)
    assert not is_little(job, 0)


@pytest.mark.slow
def test_few_records_that_are_large_are_left_to_spark(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    chance = random.Random(7)
    for number in range(40):
        large = {**application.view(number), "url": chance.randbytes(400_000).hex()}
        application.write(1, time=BEGAN + number, fields=large)
    outcome = load_once(spark, config)
    assert outcome.rows == 40
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)
    assert not any(folder_of(config, "_penstock", application.topic, "staging").iterdir())

"""Rebuilds of an hour whose files are gone or unreadable, with Spark and without it."""

import msgspec
from pyspark.sql import SparkSession

from loader.config import LoaderConfig
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.run.spark_work import SparkWork
from loader.tables import Hour, hour_folder
from tests.loader.application import BEGAN, HOUR, Application, landed
from tests.loader.loads import EITHER_WAY, Listening, folder_of, load_once, no_spark, rows_of

LATE = Hour(BEGAN + HOUR)


def test_both_ways_write_the_same_files(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    """Equal bytes: so rows, columns and statistics are equal, and so are the names."""
    application.write(1_000, time=BEGAN)
    application.write(500, time=BEGAN + 1_000, partition=1)
    application.write(7, time=LATE)
    files = []
    for tasks in EITHER_WAY.values():
        by_spark = tasks == EITHER_WAY["by Spark"]
        start = (lambda: SparkWork(spark)) if by_spark else no_spark
        config = msgspec.structs.replace(config, root=f"{config.root}_", tasks=tasks)
        assert load_once(spark, config).rows == 1_507
        hours = [folder_of(config, application.topic, hour_folder(h)) for h in (Hour(BEGAN), LATE)]
        (spoilt,), (gone,) = (folder.glob("part-*.parquet") for folder in hours)
        spoilt.write_bytes(spoilt.read_bytes()[:-50])
        gone.unlink()
        request = LoadRequest(rebuild=(Hour(BEGAN), LATE))
        (outcome,) = load(config, request, start, listening := Listening())
        assert (outcome.error, outcome.rows) == (None, 1_507)
        assert (outcome.rebuilt, outcome.waiting) == ({BEGAN: 1_500, LATE: 7}, {})
        assert all((folder / "_SUCCESS").exists() for folder in hours)
        (warning,) = listening.warnings
        assert f"{spoilt.name} is unreadable" in warning
        assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)
        parts = [part for folder in hours for part in folder.glob("part-*")]
        files.append({part.relative_to(folder_of(config)): part.read_bytes() for part in parts})
    assert len(files[0]) == 2
    assert files[0] == files[1]

"""Events of many hours, late ones, and the same ones again: each is there once, in its own hour."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from loader.config import CompletenessConfig, LoaderConfig, Tasks
from loader.errors import TooManyDuplicates
from loader.run.load_context import LoadRequest
from loader.values.tables import Hour, hour_folder, hour_of
from tests.loader.application import BEGAN, HOUR, Application, landed
from tests.loader.loads import load_once, rows_of

HOURS = 30


def everything(config: LoaderConfig) -> dict[str, tuple[int, int]]:
    """What lies below the root: when it was changed, and how large it is."""
    root = Path(config.root.removeprefix("file://"))
    found = {str(each.relative_to(root)): each.stat() for each in root.rglob("*")}
    return {name: (each.st_mtime_ns, each.st_size) for name, each in found.items()}


def rows_by_folder(spark: SparkSession, config: LoaderConfig, table: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows_of(spark, config, table):
        found.setdefault(f"dt={row['dt']}/hour={int(row['hour']):02}", []).append(row)
    return found


def test_thirty_hours_in_parts_again_and_late(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    for _ in range(4):  # batches, of which each has events of all hours
        application.write(HOURS * 5, time=BEGAN, step=HOUR // 5)
    table = application.topic

    would = load_once(spark, config, LoadRequest(dry_run=True))
    assert [(each.from_offset, each.to_offset) for each in would.ranges] == [(0, 600)]
    assert not everything(config)
    first = load_once(spark, config, LoadRequest(max_records=200))
    assert 200 <= first.rows < 600
    settled = everything(config)
    left = load_once(spark, config, LoadRequest(dry_run=True))
    assert [(each.from_offset, each.to_offset) for each in left.ranges] == [(first.rows, 600)]
    assert everything(config) == settled
    second = load_once(spark, config)
    assert second.rows == 600 - first.rows
    # All these hours are long over; but not before everything was read.
    assert (len(first.complete), len(second.complete)) == (0, HOURS)
    application.write(HOURS * 2, time=BEGAN, step=HOUR // 2, partition=1)
    third = load_once(spark, config)
    assert (third.rows, third.late, third.complete) == (2 * HOURS, 2 * HOURS, [])

    found = rows_by_folder(spark, config, table)
    assert len(found) == HOURS
    for folder, rows in found.items():
        times = {int(row["time"].timestamp() * 1000) for row in rows}
        assert {hour_folder(hour_of(time)) for time in times} == {folder}
        assert len(rows) == 22
    assert landed(rows_of(spark, config, table)) == sorted(application.written)
    assert load_once(spark, config).did_nothing

    hours = (Hour(BEGAN), Hour(BEGAN + HOUR))
    files = {name for name in everything(config) if "/part-" in name and name[0] != "_"}
    rebuilt = load_once(spark, config, LoadRequest(rebuild=hours))
    assert rebuilt.rows == 44
    after = {name for name in everything(config) if "/part-" in name and name[0] != "_"}
    replaced = {name.rpartition("/")[0] for name in files ^ after}
    assert replaced == {f"{table}/{hour_folder(hour)}" for hour in hours}
    assert landed(rows_of(spark, config, table)) == sorted(application.written)


@pytest.mark.parametrize(
    "tasks", [Tasks(), Tasks(records=60, without_spark=0)], ids=["without Spark", "divided"]
)
def test_what_is_sent_again_is_there_once(
    spark: SparkSession, application: Application, config: LoaderConfig, tasks: Tasks
) -> None:
    """Within a slice, in two slices of one partition, in another partition, in a later load."""
    patient = CompletenessConfig(settle=1e12, deadline=1e12)  # no hour is closed
    config = msgspec.structs.replace(config, tasks=tasks, completeness=patient)

    def again(first: int, last: int, partition: int) -> None:
        for source, seq in application.written[first:last]:
            application.send(BEGAN, source, seq, partition=partition)
        application.flush()

    for _ in range(4):
        application.write(50, time=BEGAN, step=0)
    again(0, 10, 0)
    again(150, 170, 0)
    again(0, 100, 1)
    application.write(10, time=BEGAN, step=0, partition=1)
    again(200, 210, 1)
    first = load_once(spark, config)
    assert (first.rows, first.duplicates) == (210, 140)
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)

    application.write(5, time=BEGAN, step=0)
    again(0, 215, 0)
    again(0, 215, 1)
    with pytest.raises(TooManyDuplicates, match=r"430 of 435 .* duplicate_share=1$"):
        load_once(spark, config)
    config = msgspec.structs.replace(config, duplicate_share=1)
    second = load_once(spark, config)
    assert (second.rows, second.duplicates) == (5, 430)
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)

    again(0, 215, 1)
    third = load_once(spark, config)
    assert (third.rows, third.duplicates, third.files) == (0, 215, 0)
    assert load_once(spark, config).did_nothing

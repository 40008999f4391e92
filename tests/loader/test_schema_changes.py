"""Whole loads, while schemas and configurations change beneath them."""

from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset
from pyspark.sql import SparkSession

from loader.config import CompletenessConfig, FileFormat, HeaderColumns, LoaderConfig, Tasks
from loader.decoding.table_columns import are_same
from loader.errors import LoaderError
from loader.run.load_context import LoadRequest
from loader.values.tables import Hour, hour_folder
from tests.loader.application import BEGAN, HOUR, VIEW, Application, Json, event_schema, landed
from tests.loader.loads import EITHER_WAY, LONG_AGO, folder_of, load_once, outcome_of, rows_of

GONE: Json = {"name": "gone", "type": "string", "default": ""}
NEW: Json = {"name": "new", "type": ["null", "string"], "default": None}


def widened(field: Json) -> Json:
    return {**field, "type": "long"} if field["name"] == "status" else field


@pytest.mark.parametrize("tasks", EITHER_WAY.values(), ids=EITHER_WAY)
def test_amounts_keep_their_value_in_another_scale(
    spark: SparkSession, application: Application, config: LoaderConfig, tasks: Tasks
) -> None:
    """Loaded at once after the change, and again with a rebuild."""
    config = msgspec.structs.replace(config, completeness=LONG_AGO, tasks=tasks)
    for scale in (2, 4):
        amount = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": scale}
        field = {"name": "amount", "type": amount, "default": "\u0000"}
        application.change(event_schema([field]))
        for number in (1234, -5):
            value = (number * 10**scale // 100).to_bytes(6, "big", signed=True)
            application.write(3, fields={"amount": value})
    assert load_once(spark, config).rows == 12
    application.change(event_schema([field, {"name": "late", "type": "string", "default": "x"}]))
    for request in (None, LoadRequest(rebuild=(Hour(BEGAN),))):
        outcome = load_once(spark, config, request)
        assert outcome.dead == 0
        rows = rows_of(spark, config, application.topic)
        assert sum(row["amount"] for row in rows) == 6 * (Decimal("12.34") - Decimal("0.05"))
    assert [each[-4:] for each in outcome.warnings] == ["late"] * bool(tasks.without_spark)


def schemas_in(config: LoaderConfig, topic: str, at: int = BEGAN) -> list[pa.Schema]:
    """Of all files of an hour."""
    folder = folder_of(config, topic, hour_folder(Hour(at)))
    return [pq.read_schema(file) for file in folder.glob("part-*")]


@pytest.mark.parametrize("tasks", EITHER_WAY.values(), ids=EITHER_WAY)
def test_every_reader_reads_a_complete_hour(
    spark: SparkSession, application: Application, config: LoaderConfig, tasks: Tasks
) -> None:
    """One column gone, one new, one wider: in an open hour, by late rows, and in an older hour."""
    config = msgspec.structs.replace(config, completeness=LONG_AGO, tasks=tasks, upgrade_bytes=0)
    never = CompletenessConfig(settle=1e12, deadline=1e12)
    application.change(event_schema([*VIEW, GONE]))
    former = {**application.view(1), "gone": "x"}
    for time in (BEGAN - 2 * HOUR, BEGAN - HOUR):
        application.write(3, time=time, fields=former)
    assert load_once(spark, config).complete == [BEGAN - 2 * HOUR, BEGAN - HOUR]
    waiting = msgspec.structs.replace(config, completeness=never)
    application.write(10, fields=former)
    load_once(spark, waiting)

    application.change(event_schema([*map(widened, VIEW), NEW]))
    latest = {**application.view(1), "status": 2**40, "new": "y"}
    application.write(10, partition=1, fields=latest)
    application.write(1, time=BEGAN - HOUR, fields=latest)
    late = load_once(spark, waiting)
    assert (late.late, late.complete) == (1, [BEGAN - HOUR])
    assert [warning.endswith(" --upgrade-schema") for warning in late.warnings] == [True]
    hour = folder_of(config, application.topic, hour_folder(Hour(BEGAN - HOUR)))
    assert {file.name for file in hour.glob("_*")} == {"_SUCCESS", f"_LATE-{(late.run or 0) - 1}"}
    assert len({str(schema) for schema in schemas_in(config, application.topic)}) == 2

    closed = load_once(spark, config)
    assert (closed.complete, closed.merged_files) == ([BEGAN], 2)
    rows = rows_of(spark, config, application.topic)
    assert landed(rows) == sorted(application.written)
    seen = {(row["status"], row["gone"], row["new"]) for row in rows}
    assert seen == {(200, "x", None), (2**40, None, "y")}
    assert {(row["host"], row["url"]) for row in rows} == {("web-1", former["url"])}

    table = pq.read_schema(folder_of(config, application.topic, "_common_metadata"))
    in_hours = [schemas_in(config, application.topic, BEGAN - at * HOUR) for at in range(3)]
    assert [[are_same(each, table) for each in found] for found in in_hours] == [
        [True],
        [True],
        [False],
    ]
    upgrade = LoadRequest(upgrade_schema=True)
    (file,) = folder_of(config, application.topic, hour_folder(Hour(BEGAN - 2 * HOUR))).glob("p*")
    if tasks.without_spark:
        content = file.read_bytes()
        file.write_bytes(content[:-1])
        failed = outcome_of(spark, msgspec.structs.replace(config, check_files_hours=0), upgrade)
        assert "hour=05: its files are not as committed" in str(failed.error)
        file.write_bytes(content)
    upgraded = load_once(spark, config, upgrade)
    assert (upgraded.upgraded, upgraded.upgraded_files) == ([BEGAN - 2 * HOUR], 1)
    assert load_once(spark, config, upgrade).did_nothing
    plain = dataset.dataset(folder_of(config, application.topic), partitioning="hive")
    assert sorted(plain.to_table()["status"].to_pylist()) == sorted(row["status"] for row in rows)
    assert landed(rows_of(spark, config, application.topic)) == landed(rows)
    assert load_once(spark, config, LoadRequest(check_files=())).faults == []


def test_few_older_hours_get_new_columns_at_once(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    application.write(3, time=BEGAN - HOUR)
    assert load_once(spark, config).complete == [BEGAN - HOUR]
    application.change(event_schema(map(widened, VIEW)))
    application.write(3)
    second = load_once(spark, config)
    assert (second.upgraded, second.upgraded_files, second.warnings) == ([BEGAN - HOUR], 1, [])
    plain = dataset.dataset(folder_of(config, application.topic))
    assert plain.to_table().num_rows == 6
    assert {str(plain.schema.field("status").type)} == {"int64"}
    assert schemas_in(config, application.topic, BEGAN - HOUR) == [plain.schema]


def test_form_and_format_of_a_table_are_fixed(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    application.write(1)
    load_once(spark, config)
    application.write(1, time=BEGAN + HOUR)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"header": HeaderColumns.NESTED}, "`header: flat`"),
        ({"format": FileFormat.ORC}, "`format: parquet`"),
    ]
    for change, says in changes:
        with pytest.raises(LoaderError, match=says):
            load_once(spark, msgspec.structs.replace(config, **change))
    assert load_once(spark, config).rows == 1

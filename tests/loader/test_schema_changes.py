"""Whole loads, while schemas and configurations change beneath them."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from loader.config import CompletenessConfig, FileFormat, HeaderColumns, LoaderConfig, Tasks
from loader.errors import LoaderError
from loader.run.load_context import LoadRequest
from loader.values.tables import Hour
from tests.loader.application import BEGAN, HOUR, VIEW, Application, Json, event_schema, landed
from tests.loader.loads import EITHER_WAY, LONG_AGO, folder_of, load_once, rows_of

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


def test_a_plain_reader_sees_all_columns_there_ever_were(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    """One gone, one new, one wider; before and after small files were merged."""
    never = CompletenessConfig(settle=1e12, deadline=1e12)
    config = msgspec.structs.replace(config, completeness=never)
    application.change(event_schema([*VIEW, GONE]))
    view = application.view(1)
    for partition in (0, 1):
        application.write(10, partition=partition, fields={**view, "gone": "x"})
    application.write(1, source="only-old", fields={**view, "gone": "x"})
    load_once(spark, config)
    application.change(event_schema([*map(widened, VIEW), NEW]))
    for partition in (0, 1):
        fields = {**view, "status": 2**40, "new": "y"}
        application.write(10, partition=partition, fields=fields)
    load_once(spark, config)
    closed = load_once(spark, msgspec.structs.replace(config, completeness=LONG_AGO))
    assert (closed.complete, closed.merged_files) == ([BEGAN], 4)
    rows = rows_of(spark, config, application.topic)
    assert landed(rows) == sorted(application.written)
    seen = {(row["status"], row["gone"], row["new"]) for row in rows}
    assert seen == {(200, "x", None), (2**40, None, "y")}
    assert {(row["host"], row["url"]) for row in rows} == {("web-1", view["url"])}
    assert len(list(folder_of(config, application.topic).rglob("part-*"))) == 2

    application.write(1, time=BEGAN + HOUR, fields=fields)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"header": HeaderColumns.NESTED}, "`header: flat`"),
        ({"format": FileFormat.ORC}, "`format: parquet`"),
    ]
    for change, says in changes:
        with pytest.raises(LoaderError, match=says):
            load_once(spark, msgspec.structs.replace(config, **change))
    assert load_once(spark, config).rows == 1

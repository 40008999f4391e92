"""Whole loads into hours of which the newest manifest knows little, or nothing, any more."""

import json

import msgspec
from pyspark.sql import SparkSession

from loader.commit.history import History
from loader.commit.old_hours import LISTED_MILLIS, faded
from loader.commit.publishing import publish
from loader.config import LoaderConfig
from loader.run.load_context import LoadRequest
from loader.store.local import LocalStore
from loader.tables import Hour, hour_folder
from tests.loader.application import BEGAN, HOUR, Application, landed
from tests.loader.loads import load_once, rows_of

FORGOTTEN, OLD = Hour(BEGAN - 1_000 * 24 * HOUR), Hour(BEGAN)


def long_after(history: History) -> None:
    """A run as there may be one a year later."""
    latest = history.latest()
    assert latest is not None
    state = latest.hours[OLD]
    after = msgspec.structs.replace(
        latest,
        run=latest.run + 1,
        adds=(),
        removes=(),
        markers=(),
        passages=(),
        hours=faded({OLD: state}, state.at + LISTED_MILLIS + 1),
        ledger_seq=latest.ledger_seq + latest.ledger_entries,
        ledger_entries=0,
    )
    assert after.hours[OLD].files == ()
    history.commit(after)
    publish(history.store, after)
    history.mark_published(after.run)


def test_late_rows_and_a_rebuild_of_what_was_forgotten(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    table = application.topic
    history = History(LocalStore(config.root), table)
    application.write(30, time=FORGOTTEN)
    application.write(20, time=OLD, partition=1)
    assert load_once(spark, config).complete == [FORGOTTEN, OLD]
    long_after(history)

    application.write(5, time=FORGOTTEN)
    assert load_once(spark, config).late == 5
    success = f"{table}/{hour_folder(FORGOTTEN)}/_SUCCESS"
    said = json.loads(history.store.read(success) or b"")
    assert (said["rows"], said["late_rows"], said["files"]) == (35, 5, 2)
    assert landed(rows_of(spark, config, table)) == sorted(application.written)
    latest = history.latest()
    assert latest is not None
    assert latest.hours[FORGOTTEN].unlisted == 1

    rebuilt = load_once(spark, config, LoadRequest(rebuild=(FORGOTTEN, OLD)))
    assert rebuilt.rows == 55
    assert landed(rows_of(spark, config, table)) == sorted(application.written)

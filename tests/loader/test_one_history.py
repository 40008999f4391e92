"""Whole loads of a root that was lost, of a topic that goes to another table, of a root that is
called otherwise: what an audit makes of what they say.
"""

import shutil
from contextlib import closing
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from audit.store.store import AuditStore
from client.connection.brokers import Brokers
from ledger.columns import columns_of
from ledger.reading import LedgerPositions
from loader.config import LoaderConfig, Table
from loader.errors import FilesDiffer
from loader.run.load import load
from loader.run.load_context import LoadRequest
from tests.client.shipped_topics import delete_before
from tests.loader.application import BEGAN, HOUR, Application
from tests.loader.loads import Listening, folder_of, ledger_entries, load_once, no_spark, outcome_of

NOW = BEGAN + 24 * HOUR


def rows_told(directory: Path, config: LoaderConfig, topic: str) -> dict[str, int]:
    """By destination: of how many rows an audit knows."""
    with closing(AuditStore.open(directory)) as store, closing(store.reading()) as reading:
        health = config.root.rpartition("//")[2]  # what the loader says of itself names the root
        told = columns_of(ledger_entries(config, topic, health))
        store.fold(config.cluster, told, LedgerPositions())
        found: dict[str, int] = {}
        for key in reading.topics():
            seen = reading.picture(key, BEGAN - HOUR, NOW, NOW, expected_millis=HOUR)
            for window in seen.windows:
                for tier, sums in window.sums.items():
                    found[tier.destination] = found.get(tier.destination, 0) + sums.events
    return found


def test_a_root_that_was_lost_is_loaded_again(
    spark: SparkSession,
    application: Application,
    config: LoaderConfig,
    brokers: Brokers,
    tmp_path: Path,
) -> None:
    """The second time, nothing of it can be read again: that is said, once and without Spark."""
    topic = application.topic
    application.write(30, time=BEGAN)
    assert load_once(spark, config).rows == 30
    shutil.rmtree(folder_of(config))
    application.write(5, time=BEGAN)
    assert load_once(spark, config).rows == 35
    runs = [each for each in ledger_entries(config, topic) if each["passages"]]
    assert len({each["header"]["source"] for each in runs}) == 2
    assert rows_told(tmp_path / "audit", config, topic) == {config.root: 35}

    shutil.rmtree(folder_of(config))
    delete_before(brokers, topic, 35)

    for run in (1, None):
        (outcome,) = load(config, LoadRequest(), no_spark, Listening())
        assert (outcome.error, outcome.run, outcome.rows) == (None, run, 0)
    assert rows_told(tmp_path / "audit2", config, topic) == {}
    application.write(5, time=BEGAN)
    assert load_once(spark, config).rows == 5


def test_a_topic_goes_to_another_table(
    spark: SparkSession, application: Application, config: LoaderConfig, tmp_path: Path
) -> None:
    topic = application.topic
    application.write(30, time=BEGAN)
    assert load_once(spark, config).rows == 30
    moved = msgspec.structs.replace(
        config, topics=(), tables={f"{topic}_2": Table(topics={topic: "dc1"})}
    )
    outcome = outcome_of(spark, moved)
    assert (outcome.error, outcome.rows) == (None, 30)
    assert rows_told(tmp_path / "audit", config, topic) == {config.root: 30}


def test_a_root_that_is_called_otherwise(
    spark: SparkSession, application: Application, config: LoaderConfig, tmp_path: Path
) -> None:
    """It is the one that its manifests name, for its runs and for its files."""
    topic = application.topic
    application.write(30, time=BEGAN)
    assert load_once(spark, config).rows == 30
    application.write(5, time=BEGAN)
    other = msgspec.structs.replace(config, root=config.root.replace("file:///", "file:/"))
    assert load_once(spark, other).rows == 5
    next(folder_of(config).glob(f"{topic}/*/*/part-*.parquet")).unlink()
    outcome = outcome_of(spark, other)
    assert isinstance(outcome.error, FilesDiffer)

    told = ledger_entries(config, topic)
    assert {each["destination"] for each in told if not each["health"]} == {config.root}
    assert any(fault for each in told for one in each["checked"] for fault in one["faults"])
    assert rows_told(tmp_path / "audit", config, topic) == {config.root: 35}

"""Whole loads of a root that was lost, of a topic that goes to another table, of a root that is
called otherwise: what an audit makes of what they say.
"""

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from audit.store.store import AuditStore
from client.brokers import Brokers
from client.consumer import Consumer
from client.offsets import Beginning
from ledger.columns import columns_of
from ledger.names import LEDGER_TOPIC
from ledger.reading import LedgerPositions
from loader.config import LoaderConfig, Table
from loader.errors import FilesDiffer
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.run.spark_work import SparkWork
from schemas.envelope import Decoder
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from tests.client.test_partition_reader import delete_before
from tests.loader.application import BEGAN, Application
from tests.loader.loads import LONG_AGO, Listening, load_once

HOUR = 3_600_000
NOW = BEGAN + 24 * HOUR


def entries(config: LoaderConfig, topic: str) -> list[Any]:
    """Of the ledger, that speak of this topic."""
    with (
        Brokers(config.bootstrap) as brokers,
        RegistryClient(config.registry) as registry,
        Consumer(brokers, LEDGER_TOPIC, Beginning(), to_end=True) as consumer,
    ):
        decoder = Decoder(registry.schema, built_in(LEDGER))
        values = [each.record.value or b"" for each in consumer]
        return [decoder.decode(value) for value in values if topic.encode() in value]


def rows_told(directory: Path, config: LoaderConfig, topic: str) -> dict[str, int]:
    """By destination: of how many rows an audit knows."""
    with closing(AuditStore.open(directory)) as store, closing(store.reading()) as reading:
        told = columns_of(entries(config, topic))
        store.fold(config.cluster, told, LedgerPositions())
        found: dict[str, int] = {}
        for key in reading.topics():
            seen = reading.picture(key, BEGAN - HOUR, NOW, NOW, expected_millis=HOUR)
            for window in seen.windows:
                for tier, sums in window.sums.items():
                    found[tier.destination] = found.get(tier.destination, 0) + sums.events
    return found


def where(config: LoaderConfig) -> Path:
    return Path(config.root.removeprefix("file://"))


def test_a_root_that_was_lost_is_loaded_again(
    spark: SparkSession, application: Application, config: LoaderConfig, tmp_path: Path
) -> None:
    application.write(30, time=BEGAN)
    assert load_once(spark, config).rows == 30
    shutil.rmtree(where(config))
    application.write(5, time=BEGAN)
    assert load_once(spark, config).rows == 35
    runs = [each for each in entries(config, application.topic) if each["passages"]]
    told = {each["header"]["source"] for each in runs}
    assert len(told) == 2
    assert rows_told(tmp_path / "audit", config, application.topic) == {config.root: 35}


def test_a_root_that_was_lost_and_of_which_nothing_can_be_read_again(
    spark: SparkSession, application: Application, config: LoaderConfig, tmp_path: Path
) -> None:
    """It is said all the same, without Spark and once: nothing of it is there any more."""
    application.write(30, time=BEGAN)
    assert load_once(spark, config).rows == 30
    shutil.rmtree(where(config))
    with Brokers(config.bootstrap) as brokers:
        delete_before(brokers, application.topic, 30)

    def no_spark() -> SparkWork:
        raise AssertionError

    for run in (1, None):
        (outcome,) = load(config, LoadRequest(), no_spark, Listening())
        assert (outcome.error, outcome.run, outcome.rows) == (None, run, 0)
    assert rows_told(tmp_path / "audit", config, application.topic) == {}
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
    (outcome,) = load(moved, LoadRequest(), lambda: SparkWork(spark), Listening())
    assert (outcome.error, outcome.rows) == (None, 30)
    assert rows_told(tmp_path / "audit", config, topic) == {config.root: 30}


def test_a_root_that_is_called_otherwise(
    spark: SparkSession, application: Application, config: LoaderConfig, tmp_path: Path
) -> None:
    """It is the one that its manifests name, for its runs and for its files."""
    topic = application.topic
    config = msgspec.structs.replace(config, completeness=LONG_AGO)
    application.write(30, time=BEGAN)
    assert load_once(spark, config).rows == 30
    application.write(5, time=BEGAN)
    other = msgspec.structs.replace(config, root=config.root.replace("file:///", "file:/"))
    assert load_once(spark, other).rows == 5
    next(where(config).glob(f"{topic}/*/*/part-*.parquet")).unlink()
    (outcome,) = load(other, LoadRequest(), lambda: SparkWork(spark), Listening())
    assert isinstance(outcome.error, FilesDiffer)

    told = entries(config, topic)
    assert {each["destination"] for each in told} == {config.root}
    assert any(fault for each in told for one in each["checked"] for fault in one["faults"])
    assert rows_told(tmp_path / "audit", config, topic) == {config.root: 35}

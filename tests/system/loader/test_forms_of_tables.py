"""Tables as they can be had: in other formats, with a nested header, of several clusters."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from loader.config import FileFormat, HeaderColumns, LoaderConfig, Table
from loader.errors import LoaderError
from tests.loader.application import BEGAN, HOUR, Application, landed
from tests.loader.loads import load_once


@pytest.fixture
def of_two(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[tuple[Application, Application]]:
    """The same application, in two clusters whose topics are mirrored into one."""
    made = [
        Application(running_broker.bootstrap, running_registry.url, f"{cluster}.{new_topic}")
        for cluster in ("dc1", "dc2")
    ]
    yield made[0], made[1]
    for each in made:
        each.close()


@pytest.fixture
def two_clusters(config: LoaderConfig, new_topic: str) -> LoaderConfig:
    topics = {f"{cluster}.{new_topic}": cluster for cluster in ("dc1", "dc2")}
    return msgspec.structs.replace(config, topics=(), tables={"views": Table(topics=topics)})


def test_two_clusters_as_orc_with_a_nested_header(
    spark: SparkSession, of_two: tuple[Application, Application], two_clusters: LoaderConfig
) -> None:
    config = msgspec.structs.replace(
        two_clusters, format=FileFormat.ORC, header=HeaderColumns.NESTED
    )
    for count, each in enumerate(of_two, 5):
        each.write(count, time=BEGAN)
        each.write(count, time=BEGAN + HOUR)
    outcome = load_once(spark, config)
    assert (outcome.table, outcome.rows) == ("views", 22)
    assert len(outcome.complete) == 2
    rows = spark.read.orc(f"{config.root}/views").collect()
    assert landed([row["header"] for row in rows]) == sorted(of_two[0].written + of_two[1].written)
    assert {(row["_cluster"], row["_topic"]) for row in rows} == {
        (cluster, each.topic) for cluster, each in zip(("dc1", "dc2"), of_two, strict=True)
    }
    assert all(row["url"] == f"/item/{row['header']['seq']}" for row in rows)

    for each in of_two:
        each.write(1, time=BEGAN)
    assert load_once(spark, config).late == 2
    assert spark.read.orc(f"{config.root}/views").count() == 24


def test_avro_without_its_module_is_refused(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    application.write(1, time=BEGAN)
    with pytest.raises(LoaderError, match=r"Avro module .* org\.apache\.spark:spark-avro"):
        load_once(spark, msgspec.structs.replace(config, format=FileFormat.AVRO))
    assert not Path(config.root.removeprefix("file://")).exists()

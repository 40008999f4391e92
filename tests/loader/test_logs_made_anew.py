"""Whole loads of partitions whose log is not the one that was read: of the same topic and id.

Most are of leader epochs that tell nothing, as with a broker that has forgotten what it had.
"""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from cluster.zookeeper import EmbeddedZooKeeper
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from loader.config import LoaderConfig
from loader.errors import GapError
from loader.run.load_context import LoadRequest
from tests.loader.application import BEGAN, Application, landed
from tests.loader.loads import LONG_AGO, load_once, rows_of

ACCEPTING = LoadRequest(accept_gap=True)


@pytest.fixture
def broker(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> Iterator[BrokerProcess]:
    """One that may lose what it has."""
    where = f"{zookeeper.address}/{uuid.uuid4().hex}"
    with BrokerProcess(tmp_path / "broker", zookeeper=where) as running:
        yield running


@pytest.fixture
def application(
    broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[Application]:
    made = Application(broker.bootstrap, running_registry.url, new_topic)
    yield made
    made.close()


@pytest.fixture
def config(
    broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str, tmp_path: Path
) -> LoaderConfig:
    return LoaderConfig(
        root=f"file://{tmp_path}/root",
        topics=(new_topic,),
        brokers=(broker.bootstrap,),
        registry=running_registry.url,
        completeness=LONG_AGO,
    )


def lose(broker: BrokerProcess, topic: str) -> None:
    """The partition's directory is removed, and the broker does not know that there was one: it
    begins an empty log at 0, under the same leader epoch."""
    assert broker.terminate() == 0
    shutil.rmtree(broker.partition_dir(topic))
    (broker.data_dir / "acknowledged").unlink()
    broker.start()


def test_a_log_that_grew_again_beyond_the_old_end(
    spark: SparkSession, broker: BrokerProcess, application: Application, config: LoaderConfig
) -> None:
    """A batch reaches over the offset at which reading goes on; it is never dropped, and what lies
    before it in the new log is not left out in silence."""
    application.write(500, time=BEGAN)
    assert load_once(spark, config).rows == 500
    lose(broker, application.topic)
    application.write(1, time=BEGAN)
    application.write(701, time=BEGAN)
    with pytest.raises(GapError) as refused:
        load_once(spark, config)
    said = str(refused.value)
    assert said.startswith(f"{application.topic}-0: offsets 0 to 499 were loaded, and the log has")
    assert said.endswith("--accept-gap")
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written[:500])
    accepted = load_once(spark, config, ACCEPTING)
    assert (accepted.rows, accepted.duplicates, accepted.dead) == (702, 0, 0)
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)
    application.write(10, time=BEGAN)
    assert load_once(spark, config).rows == 10


def test_a_log_that_was_restored_and_grew_again_is_read_from_where_it_is_the_same(
    spark: SparkSession, broker: BrokerProcess, application: Application, config: LoaderConfig
) -> None:
    """As far as runs can tell: up to the end of the last batch of one of them."""
    application.write(100, time=BEGAN)
    assert load_once(spark, config).rows == 100
    kept = broker.data_dir.with_name("kept")
    assert broker.terminate() == 0
    shutil.copytree(broker.data_dir, kept)
    broker.start()
    application.write(50, time=BEGAN)
    assert load_once(spark, config).rows == 50
    assert broker.terminate() == 0
    shutil.rmtree(broker.data_dir)
    kept.rename(broker.data_dir)  # as from a backup
    broker.start()
    application.begin_anew()
    application.write(80, time=BEGAN)
    with pytest.raises(GapError, match=f"{application.topic}-0: offsets 100 to 149 were loaded"):
        load_once(spark, config)
    accepted = load_once(spark, config, ACCEPTING)
    assert (accepted.rows, accepted.duplicates) == (80, 0)
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)


def test_a_table_that_penstock_0_1_has_loaded(
    spark: SparkSession, broker: BrokerProcess, application: Application, config: LoaderConfig
) -> None:
    """Which kept nothing of the batches: but it read whole ones."""
    application.write(500, time=BEGAN)
    assert load_once(spark, config).rows == 500
    state = Path(config.root.removeprefix("file://")) / "_penstock" / application.topic
    manifest = max(state.glob("manifest-*.json"))
    known = msgspec.json.decode(manifest.read_bytes())
    for topic in known["topics"]:
        for partition in topic["partitions"]:
            del partition["last"]
    manifest.write_bytes(msgspec.json.encode(known))
    lose(broker, application.topic)
    application.write(702, time=BEGAN)
    with pytest.raises(GapError, match="offsets 0 to 499 were loaded"):
        load_once(spark, config)


def test_a_broker_that_knows_what_it_has_lost(
    spark: SparkSession, broker: BrokerProcess, application: Application, config: LoaderConfig
) -> None:
    """It goes on behind what it had: only what was not loaded yet is a gap."""
    application.write(500, time=BEGAN)
    assert load_once(spark, config).rows == 500
    application.write(30, time=BEGAN)
    assert broker.terminate() == 0
    shutil.rmtree(broker.partition_dir(application.topic))
    broker.start()
    application.begin_anew()
    application.write(70, time=BEGAN)
    with pytest.raises(GapError, match=f"{application.topic}-0: offsets 500 to 529"):
        load_once(spark, config)
    accepted = load_once(spark, config, ACCEPTING)
    assert (accepted.rows, accepted.duplicates, accepted.dead) == (70, 0, 0)
    first, last = application.written[:500], application.written[530:]
    assert landed(rows_of(spark, config, application.topic)) == sorted([*first, *last])

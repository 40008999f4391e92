"""Whole loads of topics that are not, or not any more, what they were."""

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from client.admin import topics as admin
from client.connection.brokers import Brokers
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from loader.config import LoaderConfig, Tasks
from loader.errors import GapError, RowsLost
from loader.run.load_context import LoadRequest
from loader.values.tables import Hour
from tests.client.shipped_topics import delete_before
from tests.loader.application import BEGAN, Application, landed
from tests.loader.loads import EITHER_WAY, load_once, outcome_of, rows_of

ACCEPTING = LoadRequest(accept_gap=True)


@pytest.fixture
def write_anew(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[Callable[..., Application]]:
    """An application that creates the topic, as often as that is asked for."""
    with ExitStack() as stack:

        def made(broker: BrokerProcess = running_broker) -> Application:
            fresh = Application(broker.bootstrap, running_registry.url, new_topic)
            stack.callback(fresh.close)
            return fresh

        yield made


@pytest.fixture
def broker(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> Iterator[BrokerProcess]:
    """One that may lose what it has."""
    where = f"{zookeeper.address}/{uuid.uuid4().hex}"
    with BrokerProcess(tmp_path / "broker", zookeeper=where) as running:
        yield running


def test_what_was_deleted_too_early_fails_the_load_once(
    spark: SparkSession,
    write_anew: Callable[..., Application],
    config: LoaderConfig,
    brokers: Brokers,
) -> None:
    application = write_anew()
    application.write(10, time=BEGAN)
    assert load_once(spark, config).rows == 10
    application.write(10, time=BEGAN)
    delete_before(brokers, application.topic, 15)  # within a batch
    said = f"{application.topic}-0: offsets 10 to 14 were deleted before they were read"
    with pytest.raises(GapError, match=said):
        load_once(spark, config)
    accepted = load_once(spark, config, ACCEPTING)
    assert accepted.rows == 5
    assert any(said in warning for warning in accepted.warnings)
    there = application.written[:10] + application.written[15:]
    assert landed(rows_of(spark, config, application.topic)) == sorted(there)
    # Everything is deleted, and nothing comes after it.
    application.write(5, time=BEGAN)
    delete_before(brokers, application.topic, 25)
    with pytest.raises(GapError, match="offsets 20 to 24 were deleted"):
        load_once(spark, config)
    assert load_once(spark, config, ACCEPTING).rows == 0
    assert load_once(spark, config).did_nothing


@pytest.mark.parametrize("tasks", EITHER_WAY.values(), ids=EITHER_WAY)
def test_a_rebuild_removes_what_only_files_have_by_its_number_alone_and_keeps_the_files(
    spark: SparkSession,
    write_anew: Callable[..., Application],
    config: LoaderConfig,
    brokers: Brokers,
    tasks: Tasks,
) -> None:
    config = msgspec.structs.replace(config, tasks=tasks)
    application = write_anew()
    for _ in range(2):
        application.write(50, time=BEGAN)
        load_once(spark, config)
    topic = application.topic
    brought = landed(rows_of(spark, config, topic))
    admin.alter_topic(brokers, topic, {"retention.ms": "86400001"})
    delete_before(brokers, topic, 70)  # within the second file, which then is partly there
    rebuild = LoadRequest(rebuild=(Hour(BEGAN),))
    for request in (
        rebuild,
        msgspec.structs.replace(rebuild, accept_gap=True),
        msgspec.structs.replace(rebuild, dry_run=True),
        msgspec.structs.replace(rebuild, remove_rows=69),
    ):
        refused = outcome_of(spark, config, request)
        assert isinstance(refused.error, RowsLost)
        assert str(refused.error).endswith(
            "would remove 70 rows that the brokers no longer have; nothing was replaced;"
            f" retention.ms of {topic} is 86400001"
        )
        assert refused.cure.index("replay-a-day") < refused.cure.index("`--remove-rows 70`")
        assert "--rebuild" not in refused.cure
    assert landed(rows_of(spark, config, topic)) == brought
    less = load_once(spark, config, msgspec.structs.replace(rebuild, remove_rows=70))
    kept = f"{config.root}/_penstock/{topic}/replaced/run-{less.run}"
    assert (less.rows, f"the replaced files stay in {kept} for 30 days" in less.warnings) == (
        30,
        True,
    )
    assert landed(rows_of(spark, config, topic)) == sorted(application.written[70:])
    load_once(spark, config)
    kept_rows = spark.read.parquet(f"{kept}/{topic}").collect()
    assert landed(kept_rows) == brought


def test_a_topic_made_anew_is_never_read_on_at_the_old_offset(
    spark: SparkSession,
    write_anew: Callable[..., Application],
    config: LoaderConfig,
    brokers: Brokers,
) -> None:
    old = write_anew()
    old.write(10, time=BEGAN)
    load_once(spark, config)
    admin.delete_topic(brokers, old.topic)
    wait_until(lambda: not brokers.refresh([old.topic]).has(old.topic))
    with pytest.raises(GapError, match=f"{old.topic}-0 no longer exists"):
        load_once(spark, config)
    new = write_anew()
    new.write(30, time=BEGAN)
    with pytest.raises(GapError, match=f"{new.topic}-0: the topic was deleted and created again"):
        load_once(spark, config)
    assert load_once(spark, config, ACCEPTING).rows == 30
    assert load_once(spark, config).did_nothing
    assert landed(rows_of(spark, config, new.topic)) == sorted(old.written + new.written)


def test_a_log_that_is_not_the_one_that_was_read(
    spark: SparkSession,
    broker: BrokerProcess,
    write_anew: Callable[..., Application],
    config: LoaderConfig,
) -> None:
    """Leader epochs tell nothing of it. First it is restored as from a backup and grows again: it
    is read from where it is the same, the end of the last batch of a run. Then the broker loses
    it, forgets that there was one, and it grows beyond the old end: a batch reaches over the offset
    at which reading goes on, is never dropped, and what lies before it is not left out."""
    config = msgspec.structs.replace(config, brokers=(broker.bootstrap,))
    application = write_anew(broker)
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
    kept.rename(broker.data_dir)
    broker.start()
    application.begin_anew()
    application.write(80, time=BEGAN)
    with pytest.raises(GapError, match=f"{application.topic}-0: offsets 100 to 149 were loaded"):
        load_once(spark, config)
    accepted = load_once(spark, config, ACCEPTING)
    assert (accepted.rows, accepted.duplicates) == (80, 0)
    loaded = sorted(application.written)
    assert landed(rows_of(spark, config, application.topic)) == loaded

    assert broker.terminate() == 0
    shutil.rmtree(broker.partition_dir(application.topic))
    (broker.data_dir / "acknowledged").unlink()
    broker.start()
    application.begin_anew()
    application.write(1, time=BEGAN)
    application.write(701, time=BEGAN)
    with pytest.raises(GapError) as refused:
        load_once(spark, config)
    said = str(refused.value)
    assert said.startswith(f"{application.topic}-0: offsets 0 to 179 were loaded, but the log")
    assert said.endswith("--accept-gap")
    assert landed(rows_of(spark, config, application.topic)) == loaded
    accepted = load_once(spark, config, ACCEPTING)
    assert (accepted.rows, accepted.duplicates, accepted.dead) == (702, 0, 0)
    application.write(10, time=BEGAN)
    assert load_once(spark, config).rows == 10
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)

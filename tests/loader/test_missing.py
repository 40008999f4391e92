"""Whole loads of topics that are not, or not any more, what they were."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from client import admin
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from loader.config import LoaderConfig
from loader.errors import GapError
from loader.run.load_context import LoadRequest
from tests.client.test_partition_reader import delete_before
from tests.loader.application import BEGAN, Application, landed
from tests.loader.loads import EITHER_WAY, LONG_AGO, load_once, rows_of

ACCEPTING = LoadRequest(accept_gap=True)


@pytest.fixture
def write_anew(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[Callable[[], Application]]:
    """An application that creates the topic, as often as that is asked for."""
    with ExitStack() as stack:

        def made() -> Application:
            fresh = Application(running_broker.bootstrap, running_registry.url, new_topic)
            stack.callback(fresh.close)
            return fresh

        yield made


@pytest.fixture
def application(write_anew: Callable[[], Application]) -> Application:
    return write_anew()


@pytest.fixture(params=list(EITHER_WAY.values()), ids=list(EITHER_WAY))
def config(
    request: pytest.FixtureRequest,
    running_broker: BrokerProcess,
    running_registry: RegistryProcess,
    new_topic: str,
    tmp_path: Path,
) -> LoaderConfig:
    return LoaderConfig(
        root=f"file://{tmp_path}",
        topics=(new_topic,),
        brokers=(running_broker.bootstrap,),
        registry=running_registry.url,
        completeness=LONG_AGO,
        tasks=request.param,
    )


@pytest.fixture
def brokers(running_broker: BrokerProcess) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(running_broker.bootstrap)) as connected:
        yield connected


def test_what_was_deleted_too_early_fails_the_load_once(
    spark: SparkSession, application: Application, config: LoaderConfig, brokers: Brokers
) -> None:
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


def test_a_topic_made_anew_is_never_read_on_at_the_old_offset(
    spark: SparkSession,
    write_anew: Callable[[], Application],
    config: LoaderConfig,
    brokers: Brokers,
) -> None:
    old = write_anew()
    old.write(10, time=BEGAN)
    load_once(spark, config)
    admin.delete_topic(brokers, old.topic)
    deadline = time.monotonic() + 60
    while brokers.refresh([old.topic]).has(old.topic):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with pytest.raises(GapError, match=f"{old.topic}-0 does not exist any more"):
        load_once(spark, config)
    new = write_anew()
    new.write(30, time=BEGAN)
    with pytest.raises(GapError, match=f"{new.topic}-0: the topic was deleted and made anew"):
        load_once(spark, config)
    assert load_once(spark, config, ACCEPTING).rows == 30
    assert load_once(spark, config).did_nothing
    assert landed(rows_of(spark, config, new.topic)) == sorted(old.written + new.written)

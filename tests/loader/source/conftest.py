"""Applications, and Spark reading what they write."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from tests.loader.application import Application

NewApplication = Callable[..., Application]


@pytest.fixture
def new_application(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[NewApplication]:
    with ExitStack() as all_of_them:

        def made(suffix: str = "", **settings: Any) -> Application:
            application = Application(
                running_broker.bootstrap, running_registry.url, new_topic + suffix, **settings
            )
            all_of_them.callback(application.close)
            return application

        yield made


@pytest.fixture
def application(new_application: NewApplication) -> Application:
    """Of a topic with one partition."""
    return new_application()


@pytest.fixture
def reading(
    spark: SparkSession, running_broker: BrokerProcess, running_registry: RegistryProcess
) -> Any:
    """`spark.read`, and where to read from."""
    return lambda: (
        spark.read.format("penstock")
        .option("brokers", running_broker.bootstrap)
        .option("registry", running_registry.url)
    )


@pytest.fixture
def streaming(
    spark: SparkSession, running_broker: BrokerProcess, running_registry: RegistryProcess
) -> Any:
    return lambda: (
        spark.readStream.format("penstock")
        .option("brokers", running_broker.bootstrap)
        .option("registry", running_registry.url)
    )

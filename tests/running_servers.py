"""Servers that run for the whole of a test run, and what tests of clients need of them."""

import uuid
from collections.abc import Iterator

import pytest

from cluster.zookeeper import EmbeddedZooKeeper
from harness.apache_kafka import QUICK_JVM, ApacheKafka, kafka_classpath, why_no_kafka
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess


@pytest.fixture(scope="session")
def running_broker(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[BrokerProcess]:
    """One Penstock broker, on a map of its own."""
    directory = tmp_path_factory.mktemp("broker")
    address = f"{zookeeper.address}/{uuid.uuid4().hex}"
    settings = {"groups": {"initial_rebalance_delay": 0.2}}
    with BrokerProcess(directory, zookeeper=address, settings=settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def running_registry(
    tmp_path_factory: pytest.TempPathFactory, running_broker: BrokerProcess
) -> Iterator[RegistryProcess]:
    """One registry on that broker. Tests take subjects of their own, and leave the global level
    and mode alone."""
    settings = {"topic": f"_schemas_{uuid.uuid4().hex[:12]}"}
    directory = tmp_path_factory.mktemp("registry")
    with RegistryProcess(
        directory, brokers=running_broker.bootstrap, settings=settings
    ) as registry:
        yield registry


@pytest.fixture(scope="session")
def running_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """One Apache Kafka broker, where it can be had."""
    if kafka_classpath() is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka()}")
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), heap="512m", jvm=QUICK_JVM) as kafka:
        yield kafka


@pytest.fixture
def new_topic() -> str:
    """A name that no other test uses."""
    return f"topic-{uuid.uuid4().hex[:12]}"

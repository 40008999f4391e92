"""Servers that the system tests share.

`server` is the broker a test talks to: Penstock, or Apache Kafka where the test is marked with
`against_both`, which keeps the test itself honest. `PENSTOCK_SYSTEM_SERVER=apache-kafka` runs all
of those tests against Apache Kafka.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from cluster.zookeeper import EmbeddedZooKeeper
from tests.apache_kafka import ApacheKafka, kafka_classpath, why_no_kafka
from tests.broker_process import BrokerProcess
from tests.system.faults import Faults, NoCompiler, compile_faults


class Server(Protocol):
    """What both have: where clients connect, and where the partitions' directories are."""

    bootstrap: str
    data_dir: Path


@pytest.fixture(scope="session")
def shared_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    if kafka_classpath() is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka()}")
    with ApacheKafka(tmp_path_factory.mktemp("apache-kafka"), heap="512m") as kafka:
        yield kafka


@pytest.fixture(scope="session")
def shared_broker(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("penstock")
    with BrokerProcess(directory, zookeeper=f"{zookeeper.address}/shared") as broker:
        yield broker


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    default = os.environ.get("PENSTOCK_SYSTEM_SERVER", "penstock")
    wanted = getattr(request, "param", default)
    name = {"penstock": "shared_broker", "apache-kafka": "shared_kafka"}[wanted]
    found: Server = request.getfixturevalue(name)
    return found


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name no other test uses, that says whose it is."""
    plain = "".join(each if each.isalnum() else "-" for each in request.node.name)
    return f"{plain[:80]}-{random.SystemRandom().getrandbits(32):08x}"


@pytest.fixture(scope="session")
def faults_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return compile_faults(tmp_path_factory.mktemp("faults"))
    except NoCompiler as reason:
        pytest.skip(f"faults cannot be injected: {reason}")


@pytest.fixture
def faults(faults_library: Path, tmp_path: Path) -> Faults:
    return Faults(faults_library, tmp_path)

"""What the system tests share.

`server` is the broker a test talks to: Penstock. With `make test-long`, a test that is marked with
`against_both` talks to Apache Kafka as well, which keeps the test itself honest; with
PENSTOCK_SYSTEM_SERVER=apache-kafka all others do, too, instead. Of Apache Kafka's clients and tools
the newest release is always tried, the one before with `make test-long`.
"""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from harness.java.jvm import Jvm
from harness.kafka.apache_kafka import (
    NEWEST,
    VERSION,
    KafkaUnavailable,
    kafka_classpath,
    why_no_kafka,
)
from harness.kafka.kafka_tools import KafkaTools
from tests.system.faults import Faults, NoCompiler, compile_faults

against_both = pytest.mark.parametrize(
    "server", ["penstock", pytest.param("apache-kafka", marks=pytest.mark.long)], indirect=True
)
KAFKA_VERSIONS = [NEWEST, pytest.param(VERSION, marks=pytest.mark.long)]
each_kafka_version = pytest.mark.parametrize("version", KAFKA_VERSIONS)


@contextmanager
def kafka_tools(version: str) -> Iterator[KafkaTools]:
    """The tools of one release, if available."""
    try:
        tools = KafkaTools(version)
    except KafkaUnavailable as reason:
        pytest.skip(f"Apache Kafka cannot be had: {reason}")
    with tools:
        yield tools


@contextmanager
def kafka_java(version: str = NEWEST) -> Iterator[Jvm]:
    """A JVM with Apache Kafka's own clients, if available."""
    classpath = kafka_classpath(version)
    if classpath is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka(version)}")
    with Jvm(classpath) as running:
        yield running


class Server(Protocol):
    """The common part of both brokers: the address, and the partitions' directories."""

    bootstrap: str
    data_dir: Path


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    default = os.environ.get("PENSTOCK_SYSTEM_SERVER", "penstock")
    wanted = getattr(request, "param", default)
    name = {"penstock": "running_broker", "apache-kafka": "running_kafka"}[wanted]
    found: Server = request.getfixturevalue(name)
    return found


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A unique name that contains the test's name."""
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

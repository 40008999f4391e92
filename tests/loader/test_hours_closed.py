"""Whole loads, and what becomes of hours: by what agents say, and when they say nothing."""

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.producer import Producer
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from ledger.names import LEDGER_TOPIC
from loader.config import CompletenessConfig, LoaderConfig
from loader.errors import FilesDiffer
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.run.spark_work import SparkWork
from loader.tables import Hour, hour_folder, hour_of
from schemas.envelope import Encoder
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from tests.loader.application import BEGAN, HOUR, Application, landed
from tests.loader.loads import Listening, load_once, rows_of

PATIENT = CompletenessConfig(deadline=100 * 365 * 86_400.0)


class Agent:
    """Says in the ledger how far it is."""

    def __init__(self, broker: BrokerProcess, registry: RegistryProcess, topic: str) -> None:
        self.host = f"host-{uuid.uuid4().hex}"
        self._topic = topic
        self._id = uuid.uuid4().hex
        self._seq = -1
        self._brokers = Brokers(Bootstrap.of(broker.bootstrap))
        self._producer = Producer(self._brokers, LEDGER_TOPIC)
        schema = built_in(LEDGER)
        with RegistryClient(registry.url) as client:
            self._encoder = Encoder(schema, client.register("_audit-value", schema.text))

    def close(self) -> None:
        self._brokers.close()

    def is_past(self, until: int) -> None:
        self._seq += 1
        header = {
            "time": int(time.time() * 1000),
            "host": self.host,
            "app": "penstock-agent",
            "source": self._id,
            "seq": self._seq,
            "position": 0,
        }
        beat = {"until": until, "topics": [self._topic] if self._seq == 0 else []}
        entry = {
            "header": header,
            "version": 1,
            "tier": "agent",
            "cluster": "test",
            "heartbeats": [beat],
        }
        self._producer.send(self._encoder.encode(entry))
        self._producer.flush()


@pytest.fixture
def application(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[Application]:
    made = Application(running_broker.bootstrap, running_registry.url, new_topic, partitions=2)
    yield made
    made.close()


@pytest.fixture
def agent(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[Agent]:
    made = Agent(running_broker, running_registry, new_topic)
    yield made
    made.close()


@pytest.fixture
def config(config: LoaderConfig) -> LoaderConfig:
    return msgspec.structs.replace(config, completeness=PATIENT)


def in_hour(config: LoaderConfig, at: int) -> dict[str, Path]:
    """What lies in the folder of the hour that begins then."""
    (topic,) = config.topics
    folder = Path(config.root.removeprefix("file://")) / topic / hour_folder(Hour(at))
    return {each.name: each for each in folder.iterdir() if not each.name.endswith(".crc")}


def markers(files: dict[str, Path]) -> dict[str, Any]:
    return {name: json.loads(at.read_text()) for name, at in files.items() if name[0] == "_"}


def parts(files: Sequence[str] | dict[str, Path]) -> list[str]:
    return sorted(each for each in files if each.startswith("part-"))


def test_an_hours_way(
    spark: SparkSession, application: Application, agent: Agent, config: LoaderConfig
) -> None:
    """Loaded, complete, late, and the next one incomplete."""
    application.write(100, time=BEGAN)
    application.write(50, time=BEGAN, partition=1)
    application.write(7, time=BEGAN + HOUR)
    agent.is_past(BEGAN + HOUR - 60_000)
    first = load_once(spark, config)
    assert (first.rows, first.complete, first.incomplete) == (157, [], [])
    assert not markers(in_hour(config, BEGAN))
    assert len(parts(in_hour(config, BEGAN))) == 2

    agent.is_past(BEGAN + HOUR)
    second = load_once(spark, config)
    assert (second.rows, second.complete, second.merged_files) == (0, [BEGAN], 2)
    files = in_hour(config, BEGAN)
    assert markers(files)["_SUCCESS"]["rows"] == 150
    assert markers(files)["_SUCCESS"]["decided_by"] == "agents"
    assert len(parts(files)) == 1
    assert not markers(in_hour(config, BEGAN + HOUR))
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)
    assert load_once(spark, config).did_nothing

    application.write(3, time=BEGAN)
    taken_away = application.write(2, time=BEGAN + HOUR, partition=1)
    third = load_once(spark, config)
    assert (third.late, third.complete) == (3, [])
    files = in_hour(config, BEGAN)
    assert markers(files)["_SUCCESS"]["rows"] == 153
    assert markers(files)[f"_LATE-{third.run}"]["rows"] == 3
    assert len(parts(files)) == 2

    hasty = msgspec.structs.replace(config, completeness=CompletenessConfig(deadline=72 * 3600.0))
    fourth = load_once(spark, hasty)
    assert (fourth.complete, fourth.incomplete) == ([], [BEGAN + HOUR])
    marker = markers(in_hour(config, BEGAN + HOUR))["_INCOMPLETE"]
    assert (marker["missing"], marker["names"]) == (f"agents on {agent.host}", [agent.host])
    assert load_once(spark, hasty).did_nothing

    agent.is_past(BEGAN + 2 * HOUR)
    files = in_hour(config, BEGAN + HOUR)
    (gone,) = [name for name in parts(files) if name.startswith("part-local-1-")]
    files[gone].unlink()
    (last,) = load(hasty, LoadRequest(), lambda: SparkWork(spark), Listening())
    assert isinstance(last.error, FilesDiffer)
    assert [Path(fault.path).name for fault in last.faults] == [gone]
    assert last.complete == [BEGAN + HOUR]
    assert [gone in warning for warning in last.warnings] == [True]
    files = in_hour(config, BEGAN + HOUR)
    assert set(markers(files)) == {"_SUCCESS"}
    assert markers(files)["_SUCCESS"]["rows"] == 7
    there = set(application.written) - set(taken_away)
    assert landed(rows_of(spark, config, application.topic)) == sorted(there)


def test_hours_in_which_nothing_happened(
    spark: SparkSession, application: Application, agent: Agent, config: LoaderConfig
) -> None:
    """They are complete like others, and a reader of the table does not mind."""
    began = hour_of(int(time.time() * 1000)) - 4 * HOUR
    application.write(5, time=began)
    agent.is_past(began + 3 * HOUR)
    first = load_once(spark, config)
    assert first.complete == [began, began + HOUR, began + 2 * HOUR]
    for at, rows in enumerate((5, 0, 0)):
        files = in_hour(config, began + at * HOUR)
        assert set(markers(files)) == {"_SUCCESS"}
        assert markers(files)["_SUCCESS"]["rows"] == rows
        assert len(parts(files)) == bool(rows)
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)
    assert load_once(spark, config).did_nothing

    application.write(2, time=began + 2 * HOUR)
    late = load_once(spark, config)
    assert (late.late, late.complete) == (2, [])
    files = in_hour(config, began + 2 * HOUR)
    assert markers(files)["_SUCCESS"]["rows"] == 2
    assert markers(files)[f"_LATE-{late.run}"]["rows"] == 2
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)

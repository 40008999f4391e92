"""Whole loads, and what becomes of hours: by what agents say, when they say nothing, and when the
newest manifest knows little of them, or nothing, any more."""

import json
import time
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from client.connection.brokers import Brokers
from client.producing.producer import Producer
from ledger.names import LEDGER_TOPIC
from loader.commit.commit_log import CommitLog
from loader.commit.old_hours import LISTED_MILLIS, trimmed_hours
from loader.commit.publishing import publish
from loader.config import CompletenessConfig, LoaderConfig
from loader.errors import FilesDiffer
from loader.run.load_context import LoadRequest
from loader.run.rewrite_runs import MOST_HOURS
from loader.store.local import LocalStore
from loader.values.tables import Hour, hour_folder, hour_of
from schemas.envelope import Encoder
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from tests.ledger.said import entry
from tests.loader.application import BEGAN, HOUR, Application, landed
from tests.loader.loads import folder_of, load_once, outcome_of, rows_of

FORGOTTEN, OLD = Hour(BEGAN - 1_000 * 24 * HOUR), Hour(BEGAN)


class Agent:
    """Says in the ledger how far it is."""

    def __init__(self, brokers: Brokers, registry: RegistryClient, topic: str) -> None:
        self.host = f"host-{uuid.uuid4().hex}"
        self._topics = [topic]
        self._seq = -1
        self._producer = Producer(brokers, LEDGER_TOPIC)
        schema = built_in(LEDGER)
        self._encoder = Encoder(schema, registry.register("_audit-value", schema.text))

    def is_past(self, until: int) -> None:
        self._seq += 1
        beat = (until, [] if self._seq else self._topics)
        now = int(time.time() * 1000)
        said = entry(self.host, self._seq, beat, host=self.host, time=now, cluster="test")
        self._producer.send(self._encoder.encode(said))
        self._producer.flush()


@pytest.fixture
def agent(brokers: Brokers, registry: RegistryClient, new_topic: str) -> Agent:
    return Agent(brokers, registry, new_topic)


@pytest.fixture
def patient(config: LoaderConfig) -> LoaderConfig:
    never = CompletenessConfig(deadline=100 * 365 * 86_400.0)
    return msgspec.structs.replace(config, completeness=never)


class HourFolder:
    """What lies in the folder of the hour that begins then."""

    def __init__(self, config: LoaderConfig, at: int) -> None:
        (topic,) = config.topics
        folder = folder_of(config, topic, hour_folder(Hour(at)))
        files = {each.name: each for each in folder.iterdir() if not each.name.endswith(".crc")}
        self.markers: dict[str, Any] = {
            name: json.loads(each.read_text()) for name, each in files.items() if name[0] == "_"
        }
        self.parts: list[Path] = [each for name, each in files.items() if name.startswith("part-")]


def test_an_hour_without_rows_that_was_incomplete_becomes_complete(
    spark: SparkSession, application: Application, agent: Agent, patient: LoaderConfig
) -> None:
    this_hour = hour_of(int(time.time() * 1000))
    empty = Hour(this_hour - 2 * HOUR)
    application.write(1, time=this_hour - 3 * HOUR)
    agent.is_past(empty)
    hasty = msgspec.structs.replace(patient, completeness=CompletenessConfig(deadline=0.0))
    assert empty in load_once(spark, hasty).incomplete
    agent.is_past(this_hour)
    assert empty in load_once(spark, hasty).complete


def test_an_hours_way(
    spark: SparkSession, application: Application, agent: Agent, patient: LoaderConfig
) -> None:
    """Loaded, complete, late, and the next one incomplete."""
    application.write(100, time=BEGAN)
    application.write(50, time=BEGAN, partition=1)
    application.write(7, time=BEGAN + HOUR)
    agent.is_past(BEGAN + HOUR - 60_000)
    first = load_once(spark, patient)
    assert (first.rows, first.complete, first.incomplete) == (157, [], [])
    there = HourFolder(patient, BEGAN)
    assert (there.markers, len(there.parts)) == ({}, 2)

    agent.is_past(BEGAN + HOUR)
    second = load_once(spark, patient)
    assert (second.rows, second.complete, second.merged_files) == (0, [BEGAN], 2)
    there = HourFolder(patient, BEGAN)
    assert there.markers["_SUCCESS"]["rows"] == 150
    assert there.markers["_SUCCESS"]["decided_by"] == "agents"
    assert len(there.parts) == 1
    assert not HourFolder(patient, BEGAN + HOUR).markers
    assert landed(rows_of(spark, patient, application.topic)) == sorted(application.written)
    assert load_once(spark, patient).did_nothing

    application.write(3, time=BEGAN)
    taken_away = application.write(2, time=BEGAN + HOUR, partition=1)
    third = load_once(spark, patient)
    assert (third.late, third.complete) == (3, [])
    there = HourFolder(patient, BEGAN)
    assert there.markers["_SUCCESS"]["rows"] == 153
    assert there.markers[f"_LATE-{third.run}"]["rows"] == 3
    assert len(there.parts) == 2

    hasty = msgspec.structs.replace(patient, completeness=CompletenessConfig(deadline=72 * 3600.0))
    fourth = load_once(spark, hasty)
    assert (fourth.complete, fourth.incomplete) == ([], [BEGAN + HOUR])
    there = HourFolder(patient, BEGAN + HOUR)
    marker = there.markers["_INCOMPLETE"]
    assert (marker["missing"], marker["names"]) == (f"agents on {agent.host}", [agent.host])
    assert load_once(spark, hasty).did_nothing

    agent.is_past(BEGAN + 2 * HOUR)
    (gone,) = [each for each in there.parts if each.name.startswith("part-local-1-")]
    gone.unlink()
    last = outcome_of(spark, hasty)
    assert isinstance(last.error, FilesDiffer)
    assert [Path(fault.path).name for fault in last.faults] == [gone.name]
    assert last.complete == [BEGAN + HOUR]
    marked, warned = last.warnings
    assert gone.name in warned
    assert marked.endswith(" has `_DAMAGED` from now on")
    there = HourFolder(patient, BEGAN + HOUR)
    assert {name: each["rows"] for name, each in there.markers.items()} == {"_DAMAGED": 7}
    left = set(application.written) - set(taken_away)
    assert landed(rows_of(spark, patient, application.topic)) == sorted(left)


def test_hours_in_which_nothing_happened(
    spark: SparkSession, application: Application, agent: Agent, patient: LoaderConfig
) -> None:
    """They are complete like others, without a folder, and a reader of the table does not mind."""
    began = hour_of(int(time.time() * 1000)) - 4 * HOUR
    application.write(5, time=began)
    agent.is_past(began + 3 * HOUR)
    first = load_once(spark, patient)
    assert first.complete == [began, began + HOUR, began + 2 * HOUR]
    table = folder_of(patient, application.topic)
    assert [each.parent for each in table.glob("dt=*/hour=*/_SUCCESS")] == [
        table / hour_folder(Hour(began))
    ]
    assert len(list(table.glob("dt=*/hour=*"))) == 1
    told = json.loads((table / "_complete_hours.json").read_text())
    assert told["complete"] == [[hour_folder(Hour(began)), hour_folder(Hour(began + 2 * HOUR))]]
    assert landed(rows_of(spark, patient, application.topic)) == sorted(application.written)
    assert load_once(spark, patient).did_nothing

    application.write(2, time=began + 2 * HOUR)
    late = load_once(spark, patient)
    assert (late.late, late.complete) == (2, [])
    there = HourFolder(patient, began + 2 * HOUR)
    assert there.markers["_SUCCESS"]["rows"] == there.markers[f"_LATE-{late.run}"]["rows"] == 2
    assert landed(rows_of(spark, patient, application.topic)) == sorted(application.written)


def long_after(log: CommitLog) -> None:
    """A run as there may be one a year later."""
    latest = log.latest()
    assert latest is not None
    state = latest.hours[OLD]
    after = msgspec.structs.replace(
        latest,
        run=latest.run + 1,
        **dict.fromkeys(("adds", "removes", "markers", "passages"), ()),
        hours=trimmed_hours({OLD: state}, state.at + LISTED_MILLIS + 1),
        ledger_seq=latest.ledger_seq + latest.ledger_entries,
        ledger_entries=0,
    )
    assert after.hours[OLD].files == ()
    log.commit(after)
    publish(log.store, after)
    log.mark_published(after.run)


def test_late_rows_and_a_rebuild_of_what_was_forgotten(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    table = application.topic
    log = CommitLog(LocalStore(config.root), table)
    application.write(30, time=FORGOTTEN)
    application.write(20, time=OLD, partition=1)
    assert load_once(spark, config).complete == [FORGOTTEN, OLD]
    long_after(log)

    application.write(5, time=FORGOTTEN)
    assert load_once(spark, config).late == 5
    said = HourFolder(config, FORGOTTEN).markers["_SUCCESS"]
    assert (said["rows"], said["late_rows"], said["files"]) == (35, 5, 2)
    assert landed(rows_of(spark, config, table)) == sorted(application.written)
    latest = log.latest()
    assert latest is not None
    assert latest.hours[FORGOTTEN].unlisted == 1

    rebuilt = load_once(spark, config, LoadRequest(rebuild=(FORGOTTEN, OLD)))
    assert rebuilt.rows == 55
    assert landed(rows_of(spark, config, table)) == sorted(application.written)


def test_an_open_hour_is_merged_when_it_has_many_small_files(
    spark: SparkSession, application: Application, patient: LoaderConfig
) -> None:
    """Not with each load; not if one is damaged; also if the manifest has no names of files."""
    config = msgspec.structs.replace(patient, check_files_hours=0)

    def loaded(most: int = 4) -> tuple[int, int, int]:
        terms = CompletenessConfig(deadline=1e12, merge_to=1, merge_open_above=most)
        for partition in range(2):
            application.write(3, time=OLD, partition=partition)
        outcome = load_once(spark, msgspec.structs.replace(config, completeness=terms))
        assert (outcome.rows, outcome.complete) == (6, [])
        return len(HourFolder(config, OLD).parts), outcome.merged_files, len(outcome.warnings)

    assert [loaded(most=0) for _ in range(3)] == [(2, 0, 0), (4, 0, 0), (6, 0, 0)]
    assert [loaded() for _ in range(4)] == [(1, 8, 0), (3, 0, 0), (1, 5, 0), (3, 0, 0)]
    (spoilt, *_) = HourFolder(config, OLD).parts
    content = spoilt.read_bytes()
    spoilt.write_bytes(content[:-9] + b"x" + content[-8:])
    assert loaded() == (5, 0, 1)
    spoilt.write_bytes(content)
    long_after(CommitLog(LocalStore(config.root), application.topic))
    assert loaded() == (1, 7, 0)

    assert load_once(spark, config, LoadRequest(check_files=())).faults == []
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)
    assert load_once(spark, config, LoadRequest(rebuild=(OLD,))).rows == len(application.written)
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)


def test_a_load_merges_some_open_hours_and_the_next_one_others(
    spark: SparkSession, application: Application, patient: LoaderConfig
) -> None:
    terms = CompletenessConfig(deadline=1e12, merge_open_above=1)
    config = msgspec.structs.replace(patient, completeness=terms)
    for number in range(2 * (MOST_HOURS + 1)):
        application.write(1, time=OLD + number // 2 * HOUR, partition=number % 2)
    assert [load_once(spark, config).merged_files for _ in range(3)] == [2 * MOST_HOURS, 2, 0]
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)

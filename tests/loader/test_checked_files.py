"""Whole loads that find out more than rows: what an audit says, what somebody did to files."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from client.brokers import Brokers
from client.consumer import Consumer
from client.offsets import Beginning
from harness.broker_process import BrokerProcess
from ledger.names import LEDGER_TOPIC
from loader.config import CompletenessConfig, LoaderConfig
from loader.errors import DamagedBatch, FilesDiffer
from loader.ledger.observations import TOLD
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.run.outcomes import TableOutcome, worst_exit_code
from loader.run.spark_work import SparkWork
from loader.tables import Hour, hour_folder
from schemas.envelope import Decoder
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from tests.loader.answering_audit import answering_audit, document
from tests.loader.application import BEGAN, HOUR, Application
from tests.loader.loads import Listening, load_once, rows_of

PATIENT = CompletenessConfig(deadline=100 * 365 * 86_400.0)


def loaded(spark: SparkSession, config: LoaderConfig) -> TableOutcome:
    (outcome,) = load(config, LoadRequest(), lambda: SparkWork(spark), Listening())
    return outcome


def said(config: LoaderConfig, topic: str, what: str) -> list[dict[str, Any]]:
    """Of this topic, in the ledger."""
    return [each for entry in entries(config, topic) for each in entry[what]]


def entries(config: LoaderConfig, topic: str) -> list[dict[str, Any]]:
    """Of the ledger, that name this topic."""
    with (
        Brokers(config.bootstrap) as brokers,
        RegistryClient(config.registry) as registry,
        Consumer(brokers, LEDGER_TOPIC, Beginning(), to_end=True) as consumer,
    ):
        decoder = Decoder(registry.schema, built_in(LEDGER))
        values = [each.record.value or b"" for each in consumer]
        found = [decoder.decode(value) for value in values if topic.encode() in value]
    assert {each["cluster"] for each in found} == {config.cluster}
    return found


def test_what_a_load_finds_out_beside_its_rows(
    spark: SparkSession,
    application: Application,
    config: LoaderConfig,
    running_broker: BrokerProcess,
) -> None:
    """From the audit, from files that somebody has touched, and from a log that is spoilt."""
    with answering_audit() as audit:
        config = msgspec.structs.replace(config, completeness=PATIENT, audit=audit.url)
        topic = application.topic
        application.write(30, time=BEGAN)
        application.write(20, time=BEGAN, partition=1)
        audit.said.body = document(missing="agents on web-1", names=["web-1"])
        assert load_once(spark, config).rows == 50

        folder = f"{topic}/{hour_folder(Hour(BEGAN))}"
        there = Path(config.root.removeprefix("file://")) / folder
        one, other = sorted(there.glob("part-*.parquet"))
        kept = other.rename(there / "_aside")
        shutil.copy(one, there / "part-copy.parquet")
        (there / "part-odd.parquet").write_bytes(b"PAR1")
        found = loaded(spark, config)
        assert isinstance(found.error, FilesDiffer)
        assert (worst_exit_code([found]), found.complete) == (8, [])
        assert {(fault.path, *fault[1:4]) for fault in found.faults} == {
            (f"{folder}/{other.name}", "missing", 20, 0),
            (f"{folder}/part-copy.parquet", "extra", 0, 30),
            (f"{folder}/part-odd.parquet", "extra", 0, -1),
        }

        kept.rename(other)
        for name in ("part-copy.parquet", "part-odd.parquet"):
            (there / name).unlink()
        audit.said.body = document(complete=True, by="agents")
        closed = load_once(spark, config)
    assert (closed.complete[0], closed.merged_files) == (BEGAN, 2)
    assert b'"decided_by": "audit: agents"' in (there / "_SUCCESS").read_bytes()
    asked = {(each["topic"][0], int(each["hour"][0])) for each in audit.said.asked}
    assert (topic, BEGAN) in asked
    all_ = load_once(spark, config, LoadRequest(check_files=()))
    assert (all_.rows, all_.did_nothing, all_.checked[0]) == (0, False, BEGAN)
    checked = [
        (each["rows"], each["files"], len(each["faults"]))
        for each in said(config, topic, "checked")
        if each["from_time"] == BEGAN
    ]
    assert checked == [(50, 2, 0), (50, 2, 3), (50, 1, 0), (50, 1, 0)]

    # What is gone is made anew from the log, also where it was the whole hour.
    config = msgspec.structs.replace(config, audit="")
    shutil.rmtree(there)
    assert isinstance(loaded(spark, config).error, FilesDiffer)
    assert load_once(spark, config, LoadRequest(rebuild=(Hour(BEGAN),))).rows == 50
    assert len(rows_of(spark, config, topic)) == 50

    application.write(5, time=BEGAN)
    (segment,) = running_broker.partition_dir(topic).glob("*.log")
    spoilt = bytearray(segment.read_bytes())
    spoilt[-1] ^= 1
    with segment.open("r+b") as file:
        file.write(spoilt)
    damaged = loaded(spark, config).error
    assert isinstance(damaged, DamagedBatch)
    assert (damaged.exit_code, damaged.partition, damaged.reason) == (
        7,
        0,
        "the CRC does not match",
    )
    (told,) = said(config, topic, "damaged")
    assert (told["partition"], told["offsets"]) == (0, {"first": 30, "count": 5})
    assert told["topic_id"]


def test_what_is_said_comes_behind_what_a_clock_said_that_was_ahead(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    """Of a host that loaded before this one."""
    application.write(30, time=BEGAN)
    assert load_once(spark, config).rows == 30
    root = Path(config.root.removeprefix("file://"))
    kept = json.loads((root / TOLD).read_bytes())
    ahead = kept["time"] + 24 * HOUR
    (root / TOLD).write_text(json.dumps(kept | {"time": ahead}))
    (file,) = (root / application.topic).glob("dt=*/hour=*/part-*.parquet")
    file.unlink()
    assert isinstance(loaded(spark, config).error, FilesDiffer)
    last = [each for each in entries(config, application.topic) if each["header"]["time"] > ahead]
    (checked,) = [each["checked"] for each in last if each["checked"]]
    assert [each["fault"] for each in checked[0]["faults"]] == ["missing"]
    (loads,) = [each["loads"] for each in last if each["loads"]]
    assert not loads[0]["failed"]


def test_a_flipped_byte_is_found_by_the_next_load(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    """The file is as long as it was, and its footer says as many rows."""
    application.write(30, time=BEGAN)
    assert load_once(spark, config).rows == 30
    root = Path(config.root.removeprefix("file://"))
    (file,) = (root / application.topic).glob("dt=*/hour=*/part-*.parquet")
    data = bytearray(file.read_bytes())
    data[len(data) // 4] ^= 1
    file.write_bytes(data)
    found = loaded(spark, config)
    assert isinstance(found.error, FilesDiffer)
    path = str(file.relative_to(root))
    assert [fault[:4] for fault in found.faults] == [(path, "changed", 30, 30)]
    assert "has other bytes than were committed" in str(found.error)
    last = said(config, application.topic, "checked")[-1]
    assert [(each["fault"], each["path"]) for each in last["faults"]] == [("changed", path)]
    asked = LoadRequest(check_files=(Hour(BEGAN),))
    (checked,) = load(config, asked, lambda: SparkWork(spark), Listening())
    assert [fault.path for fault in checked.faults] == [path]

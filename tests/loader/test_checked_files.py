"""Landed files that somebody touches, and a log that is spoilt: found, told, and right again."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from client.brokers import Brokers
from client.consumer import Consumer
from client.offsets import Beginning
from ledger.names import LEDGER_TOPIC
from loader.config import Completeness, LoaderConfig
from loader.errors import DamagedBatch, FilesDiffer
from loader.load import load
from loader.outcomes import TableOutcome, worst_exit_code
from loader.surroundings import Request
from loader.tables import Hour, hour_folder
from schemas.envelope import Decoder
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from tests.broker_process import BrokerProcess
from tests.loader.application import BEGAN, Application
from tests.loader.loads import Listening, load_once

ALL = Request(check_files=())
PATIENT = Completeness(deadline=100 * 365 * 86_400.0)


def loaded(
    spark: SparkSession, config: LoaderConfig, request: Request | None = None
) -> TableOutcome:
    (outcome,) = load(config, request or Request(), spark, Listening())
    return outcome


def said(config: LoaderConfig, topic: str, what: str) -> list[dict[str, Any]]:
    """Of this topic, in the ledger."""
    with (
        Brokers(config.bootstrap) as brokers,
        RegistryClient(config.registry) as registry,
        Consumer(brokers, LEDGER_TOPIC, Beginning(), to_end=True) as consumer,
    ):
        decoder = Decoder(registry.schema, built_in(LEDGER))
        values = [each.record.value or b"" for each in consumer]
        entries = [decoder.decode(value) for value in values if topic.encode() in value]
    assert {each["cluster"] for each in entries} == {config.cluster}
    return [each for entry in entries for each in entry[what]]


def test_files_and_batches_that_are_not_what_they_were(
    spark: SparkSession,
    application: Application,
    config: LoaderConfig,
    running_broker: BrokerProcess,
) -> None:
    config = msgspec.structs.replace(config, completeness=PATIENT)
    topic = application.topic
    application.write(30, time=BEGAN)
    application.write(20, time=BEGAN, partition=1)
    assert loaded(spark, config).error is None
    asked = loaded(spark, config, ALL)
    assert (asked.error, asked.checked, asked.faults) == (None, [BEGAN], [])
    assert (asked.rows, asked.did_nothing) == (0, False)

    folder = f"{topic}/{hour_folder(Hour(BEGAN))}"
    there = Path(config.root.removeprefix("file://")) / folder
    one, other = sorted(there.glob("part-*.parquet"))
    kept = other.rename(there / "_aside")
    shutil.copy(one, there / "part-copy.parquet")
    (there / "part-odd.parquet").write_bytes(b"PAR1")
    for request in (Request(), ALL):
        found = loaded(spark, config, request)
        assert isinstance(found.error, FilesDiffer)
        assert worst_exit_code([found]) == 8
        assert {(fault.path, *fault[1:4]) for fault in found.faults} == {
            (f"{folder}/{other.name}", "missing", 20, 0),
            (f"{folder}/part-copy.parquet", "extra", 0, 30),
            (f"{folder}/part-odd.parquet", "extra", 0, -1),
        }
    kept.rename(other)
    for name in ("part-copy.parquet", "part-odd.parquet"):
        (there / name).unlink()
    assert load_once(spark, config).did_nothing
    checked = said(config, topic, "checked")
    assert [(each["from_time"], each["rows"]) for each in checked] == [(BEGAN, 50)] * 5
    assert [len(each["faults"]) for each in checked] == [0, 0, 3, 3, 0]

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

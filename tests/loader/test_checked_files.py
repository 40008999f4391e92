"""Whole loads that find out more than rows: what an audit says, what somebody did to files."""

import re
import shutil
import subprocess
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from harness.penstock.broker import BrokerProcess
from loader.config import CompletenessConfig, FileCompression, LoaderConfig
from loader.errors import DamagedBatch, FilesDiffer
from loader.run.load_context import LoadRequest
from loader.run.outcomes import worst_exit_code
from loader.values.tables import HOUR_MILLIS, Hour, hour_folder
from tests.loader.answering_audit import answering_audit, document
from tests.loader.application import BEGAN, Application
from tests.loader.loads import folder_of, ledger_entries, load_once, outcome_of, rows_of
from tests.system.clients.librdkafka import LibrdkafkaAdmin

PATIENT = CompletenessConfig(deadline=100 * 365 * 86_400.0)


def said(config: LoaderConfig, topic: str, what: str) -> list[dict[str, Any]]:
    """Of this topic, in the ledger."""
    return [each for entry in ledger_entries(config, topic) for each in entry[what]]


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
        there = folder_of(config, folder)
        one, other = sorted(there.glob("part-*.parquet"))
        kept = other.rename(there / "_aside")
        shutil.copy(one, there / "part-copy.parquet")
        (there / "part-odd.parquet").write_bytes(b"PAR1")
        found = outcome_of(spark, config)
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
    assert {each["cluster"] for each in ledger_entries(config, topic)} == {config.cluster}
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
    assert isinstance(outcome_of(spark, config).error, FilesDiffer)
    application.write(5, time=BEGAN)  # which no load has read; the hour stays complete
    rebuilt = load_once(spark, config, LoadRequest(rebuild=(Hour(BEGAN),)))
    assert (rebuilt.rows, rebuilt.complete, rebuilt.waiting) == (50, [BEGAN], {})
    assert len(rows_of(spark, config, topic)) == 50

    (part,) = there.glob("part-*")
    shutil.copy(part, there / "part copy.parquet")
    for wanted in (BEGAN, BEGAN + HOUR_MILLIS):  # an extra file stays; it harms one of them
        found = outcome_of(spark, config, LoadRequest(rebuild=(Hour(wanted),)))
        assert (bool(found.error), len(found.faults)) == (wanted == BEGAN, 1)
        (move,) = re.findall("`(mv .+?)`", found.cure or found.other_cure)
    subprocess.run(move, shell=True, check=True)
    assert load_once(spark, config, LoadRequest(check_files=(Hour(BEGAN),))).warnings == [
        f"{folder} is intact again and has `_SUCCESS` again"
    ]
    assert sorted(path.name[:5] for path in there.glob("[!.]*")) == ["_SUCC", "part-"]

    (segment,) = running_broker.partition_dir(topic).glob("*.log")
    spoilt = bytearray(segment.read_bytes())
    spoilt[-1] ^= 1
    with segment.open("r+b") as file:
        file.write(spoilt)
    damaged = outcome_of(spark, config).error
    assert isinstance(damaged, DamagedBatch)
    reason = "the CRC does not match"
    assert (damaged.exit_code, damaged.partition, damaged.reason) == (7, 0, reason)
    (told,) = said(config, topic, "damaged")
    assert (told["partition"], told["offsets"]) == (0, {"first": 30, "count": 5})
    assert told["topic_id"]

    # A rebuild from less than there was leaves the hour incomplete until an audit knows its files.
    spoilt[-1] ^= 1
    spoilt[100] ^= 1
    segment.write_bytes(spoilt)
    with answering_audit() as audit:
        config = msgspec.structs.replace(config, audit=audit.url)
        audit.said.body = document(complete=True, by="agents and brokers")
        again = LoadRequest(rebuild=(Hour(BEGAN),))
        assert "--rebuild dt=" in outcome_of(spark, config, again).cure
        passing_over = msgspec.structs.replace(again, accept_gap=True)
        assert "`--remove-rows 30`" in outcome_of(spark, config, passing_over).cure
        less = load_once(spark, config, msgspec.structs.replace(again, remove_rows=30))
        assert (less.rows, BEGAN in less.complete) == (20, False)
        assert less.waiting[Hour(BEGAN)].startswith("30 of its 50 rows, which the brokers")
        names = {path.name[:5] for path in there.glob("[!.]*")}
        assert names == {"_INCO", "part-"}
        assert all("destination" not in question for question in audit.said.asked)
        assert BEGAN in load_once(spark, config).complete
        (of_files,) = (question for question in audit.said.asked if "destination" in question)
        assert of_files["destination"] == [config.root]
    LibrdkafkaAdmin().delete_topic(running_broker.bootstrap, topic)  # other tests share its broker


def test_a_changed_file_is_not_merged(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    config = msgspec.structs.replace(config, compression=FileCompression.NONE)
    with answering_audit() as audit:
        config = msgspec.structs.replace(config, completeness=PATIENT, audit=audit.url)
        audit.said.body = document(missing="agents on web-1", names=["web-1"])
        for partition in (0, 1):
            application.write(20, time=BEGAN, partition=partition)
        load_once(spark, config)
        there = folder_of(config, f"{application.topic}/{hour_folder(Hour(BEGAN))}")
        part, *_ = sorted(there.glob("part-*"))
        part.write_bytes(part.read_bytes().replace(b"/item/3", b"/item/4", 1))
        audit.said.body = document(complete=True, by="agents")
        found = outcome_of(spark, config)
    assert isinstance(found.error, FilesDiffer)
    assert (found.merged_files, [fault.fault for fault in found.faults]) == (0, ["changed"])
    names = {path.name for path in there.iterdir()}
    assert ("_DAMAGED" in names, "_SUCCESS" in names) == (True, False)

"""Apache Kafka's own tool reads every file of a log, and finds nothing to complain about."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.storage.log import Log
from harness.apache_kafka import dump_log, kafka_classpath, why_no_kafka
from tests.broker.storage.log_files import (
    NOW,
    append,
    batch,
    checkpoint,
    create,
    flush,
    reopen,
)
from wire.compression import Codec

COMPLAINTS = re.compile(
    "mismatch|out of order|not found|Non-consecutive|corrupt|Exception|Found timestamp|"
    "isvalid: false|invalid bytes",
    re.IGNORECASE,
)


@pytest.fixture
def kafka() -> None:
    if kafka_classpath() is None:
        pytest.skip(why_no_kafka())


def filled(directory: Path) -> Log:
    log = create(directory, segment_bytes=30_000, index_interval_bytes=300)
    for number in range(300):
        times = [NOW + number * 7 % 900, NOW + number * 5 % 800, NOW + number]
        codec = list(Codec)[number % len(Codec)]
        sent = batch(3, size=40, timestamps=times, codec=codec, producer=(5, 0, 3 * number))
        append(log, sent, leader_epoch=number // 100)
        if number % 40 == 0:
            flush(log)
    return log


def closed(log: Log) -> None:
    log.close()


def closed_between(log: Log) -> None:
    log.close()
    again = reopen(log, clean=True)
    for number in range(900, 1200, 3):
        append(again, batch(3, timestamps=[NOW + number] * 3, producer=(5, 0, number)))
    again.close()


def recovered(log: Log) -> None:
    log.abandon()
    for path in log.directory.glob("*index"):
        path.write_bytes(b"")
    reopen(log, recovery_point=0).close()


def half_recovered(log: Log) -> None:
    checkpoint(log)
    closed_between(log)
    reopen(log, recovery_point=900).close()


@pytest.mark.usefixtures("kafka")
@pytest.mark.parametrize("ending", [closed, closed_between, recovered, half_recovered])
def test_kafkas_own_tool_reads_every_file(tmp_path: Path, ending: Callable[[Log], None]) -> None:
    log = filled(tmp_path)
    ending(log)
    files = sorted(
        path
        for path in log.directory.iterdir()
        if path.suffix in (".log", ".index", ".timeindex", ".snapshot")
    )
    said = dump_log(files, directory=tmp_path)
    complaints = [line for line in said.splitlines() if COMPLAINTS.search(line)]
    assert not complaints
    count = said.count("| offset: ")
    assert count == reopen(log, clean=True).end_offset
    for path in files:
        assert f"Dumping {path}" in said
    assert "producerId: 5 producerEpoch: 0" in said
    assert said.count("timestamp: ") > 20


@pytest.mark.usefixtures("kafka")
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_the_tool_would_complain(tmp_path: Path, suffix: str) -> None:
    log = filled(tmp_path)
    log.close()
    path = log.directory / f"{0:020d}.{suffix}"
    content = bytearray(path.read_bytes())
    content[3 if suffix == "index" else 7] ^= 1
    path.write_bytes(content)
    said = dump_log([path], directory=tmp_path)
    assert COMPLAINTS.search(said)

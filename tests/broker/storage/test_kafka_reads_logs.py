"""Apache Kafka's own tool reads every file of a log, and finds nothing to complain about."""

import re
from pathlib import Path

import pytest

from broker.storage.log import Log
from broker.storage.state.producers import ProducerStates
from harness.kafka.apache_kafka import dump_log, kafka_classpath, why_no_kafka
from tests.broker.storage.compacted_log import filled as compacted
from tests.broker.storage.compacted_log import inline, stored
from tests.broker.storage.log_files import (
    NOW,
    append,
    batch,
    checkpoint,
    create,
    flip,
    flush,
    log_file,
    reopen,
)
from wire.record_batches.batch import read_header
from wire.record_batches.compression import Codec

SUFFIXES = {".log", ".index", ".timeindex", ".snapshot"}
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


ENDINGS = [closed, closed_between, recovered, half_recovered]


def snapshot(directory: Path) -> Path:
    """Of two producers, of which one has sent more than is kept of it."""
    states = ProducerStates()
    for i in range(7):
        sent = batch(10, producer=(4242, 3, i * 10))
        states.record(read_header(sent), 1000 + i * 10, NOW + i)
    states.record(read_header(batch(1, producer=(77, 1, 0))), 2000, NOW)
    path = directory / "00000000000000002001.snapshot"
    path.write_bytes(states.encode())
    return path


def cleaned(directory: Path) -> tuple[list[Path], int]:
    """A log of three segments that was compacted, with tombstones: its files, and how many records
    are left."""
    story = compacted(directory)
    story.compact(inline)
    count = len(stored(story.log))
    story.log.close()
    return sorted(directory.glob("t-0/0*")), count


@pytest.mark.usefixtures("kafka")
def test_kafkas_own_tool_reads_every_file(tmp_path: Path) -> None:
    files, count = cleaned(tmp_path)
    for ending in ENDINGS:
        directory = tmp_path / ending.__name__
        directory.mkdir()
        log = filled(directory)
        ending(log)
        files += sorted(log.directory.glob("0*"))
        count += reopen(log, clean=True).end_offset
    files = [each for each in files if each.suffix in SUFFIXES]
    said = dump_log([*files, snapshot(tmp_path)], directory=tmp_path)
    gaps = f"Non-consecutive offsets in {tmp_path / 't-0'}"  # that is what compaction leaves
    complaints = [line for line in said.splitlines() if COMPLAINTS.search(line)]
    assert not [line for line in complaints if gaps not in line]
    assert said.count("| offset: ") == count
    assert {path.suffix for path in files} == SUFFIXES
    for path in files:
        assert f"Dumping {path}" in said
    assert "producerId: 5 producerEpoch: 0" in said
    assert said.count("timestamp: ") > 20
    assert "deleteHorizonMs: OptionalLong[1790000001000]" in said
    producers = [line for line in said.splitlines() if "producerId: 4242" in line]
    assert len(producers) == 5
    for part in ("producerEpoch: 3", "firstSequence: 60", "lastSequence: 69 lastOffset: 1069"):
        assert part in producers[-1]
    assert "producerId: 77" in said


@pytest.mark.usefixtures("kafka")
def test_the_tool_would_complain(tmp_path: Path) -> None:
    spoilt = []
    for suffix, at in (("index", 3), ("timeindex", 7)):
        directory = tmp_path / suffix
        directory.mkdir()
        log = filled(directory)
        log.close()
        spoilt.append(log_file(log, suffix=f".{suffix}"))
        flip(spoilt[-1], at)
    said = dump_log(spoilt, directory=tmp_path)
    first, second = said.index(f"Dumping {spoilt[0]}"), said.index(f"Dumping {spoilt[1]}")
    complaints = [each.start() for each in COMPLAINTS.finditer(said)]
    assert len(complaints) >= 2, (first, second, said[-2000:])

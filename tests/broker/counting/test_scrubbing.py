"""Rounds through what is stored: each segment once a round, no faster than allowed, on over a
restart, and damage in the journal before anything else is read."""

from pathlib import Path

import pytest

from broker.config import Checks
from broker.counting.reports import CountingReport, Led
from broker.counting.scrubbing import Scrubbing
from broker.storage.log import Log
from ledger.counting.counter import Counter
from ledger.counting.entries import Speaker
from ledger.counting.journal import CountingJournal
from ledger.counting.told import EpochStart
from tests.broker.storage.log_files import append, batch, create, flush, log_file, names, overwrite

HOUR = 3_600_000


class Clock:
    """Milliseconds."""

    def __init__(self) -> None:
        self.now = 1_790_000_000_000

    def __call__(self) -> int:
        return self.now


class Nobody:
    def send(self, entry: object) -> None:
        raise AssertionError("nothing is sent by who reads")


class Reader:
    """A scrub of one data directory, whose process may be killed."""

    def __init__(self, directory: Path, rate: int = 1000) -> None:
        self.clock = Clock()
        self._directory = directory
        self._checks = Checks(scrub_seconds=3600.0, scrub_bytes_per_second=rate)
        self.begin()

    def begin(self) -> None:
        self.journal = CountingJournal(self._directory / "ledger-counter", "broker")
        speaker = Speaker(self.journal.source, "h", "a", "dc1", 60_000)
        counter = Counter(self.journal, speaker, Nobody())
        self.scrubbing = Scrubbing(self._directory, self._checks, counter, self.clock)

    @property
    def damaged(self) -> list[tuple[str, int, int]]:
        return [
            (each["topic"], each["offsets"]["first"], each["offsets"]["count"])
            for entry in self.journal.pending
            for each in entry["damaged"]
        ]

    def round(self) -> float:
        """To its end; how many seconds it takes."""
        seconds = 0.0
        while (pause := self.scrubbing.step()) is not None:
            seconds += pause
        return seconds


def a_log(directory: Path) -> Log:
    directory.mkdir()
    log = create(directory, segment_bytes=3000)
    for _ in range(60):
        append(log, batch(3, size=20))
    flush(log)
    return log


def led(topic: str, log: Log, start: int = 0) -> Led:
    directory, end = str(log.directory), log.exposed_offset
    epochs = [EpochStart(0, 0)]
    return Led(topic, topic, 0, directory, start, end, 0, compacts=False, end=end, epochs=epochs)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return a_log(tmp_path / "one")


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


def test_each_round_reads_all_of_it_at_the_rate(log: Log, reader: Reader, tmp_path: Path) -> None:
    assert reader.scrubbing.step() is None, "nothing is known yet"
    other = a_log(tmp_path / "two")
    reader.scrubbing.follow(CountingReport([led("t", log), led("u", other)], []))
    size = log.size + other.size
    assert reader.round() == pytest.approx(size / 1000)
    assert reader.scrubbing.taken() == ([], size, reader.clock.now)
    assert reader.round() == 0, "the next is not due"
    reader.clock.now += HOUR
    assert reader.round() == pytest.approx(size / 1000)


def test_damage_is_journalled_and_told(log: Log, reader: Reader) -> None:
    second = names(log, ".log")[1]
    overwrite(log_file(log, second), 100, b"spoilt")
    reader.scrubbing.follow(CountingReport([led("t", log)], []))
    reader.round()
    assert reader.damaged == [("t", second, 3)]
    (found, *_), _, _ = reader.scrubbing.taken()
    assert found[:4] == ("t", 0, second, 3)
    assert log_file(log, second).name in found.reason


def test_what_was_deleted_is_not_missed(log: Log, reader: Reader) -> None:
    overwrite(log_file(log, 0), 100, b"spoilt")
    reader.scrubbing.follow(CountingReport([led("t", log, start=3)], []))
    reader.round()
    assert reader.damaged == []


def test_a_restart_goes_on_where_it_was(log: Log, reader: Reader, tmp_path: Path) -> None:
    other = a_log(tmp_path / "two")
    report = CountingReport([led("t", log), led("u", other)], [])
    reader.scrubbing.follow(report)
    while not (tmp_path / "scrub").exists():
        reader.scrubbing.step()
    first = log_file(log, 0).stat().st_size
    reader.begin()
    reader.scrubbing.follow(report)
    assert reader.round() == pytest.approx((log.size - first + other.size) / 1000)
    reader.begin()
    reader.scrubbing.follow(report)
    assert reader.round() == 0
    assert reader.scrubbing.taken()[2] == reader.clock.now


def test_what_goes_away_meanwhile_is_passed_over(log: Log, reader: Reader, tmp_path: Path) -> None:
    other = a_log(tmp_path / "two")
    reader.scrubbing.follow(CountingReport([led("t", log), led("u", other)], []))
    reader.scrubbing.step()
    for path in log.directory.glob("*.log"):
        path.unlink()
    seconds = reader.round()
    assert seconds >= other.size / 1000
    assert reader.damaged == []
    assert reader.scrubbing.taken()[2] == reader.clock.now


def test_a_file_of_progress_that_cannot_be_read(log: Log, reader: Reader, tmp_path: Path) -> None:
    (tmp_path / "scrub").write_bytes(b"{")
    reader.begin()
    reader.scrubbing.follow(CountingReport([led("t", log)], []))
    assert reader.round() == pytest.approx(log.size / 1000)

"""Rounds through what is stored: each segment once a round, no faster than allowed, on over a
restart, and damage in the journal before anything else is read."""

import os
from pathlib import Path
from uuid import UUID

import pytest

from broker.configs.config import Checks
from broker.counting.reports import CountingReport, Led
from broker.counting.scrubbing import Scrubbing
from broker.storage.log import Log
from ledger.counting.counted_offsets import EpochStart
from ledger.counting.counter import Counter
from ledger.counting.entries import Speaker
from ledger.counting.journal import CountingJournal
from ledger.counting.sealed_entries import SealedEntry
from ledger.names import topic_id_text
from tests.broker.storage.log_files import create, grow, log_file, names, overwrite
from tests.ledger.counting.encoding import COUNTERS_KEY, EncodesAtOnce

HOUR = 3_600_000
WHOLE = Checks(scrub_seconds=3600.0, scrub_bytes_per_second=1000, young_seconds=0)


class Clock:
    """Milliseconds of the day, and seconds of the machine."""

    def __init__(self) -> None:
        self.now = 1_790_000_000_000
        self.seconds = 0.0

    def __call__(self) -> int:
        return self.now


class Nobody(EncodesAtOnce):
    def send(self, entry: SealedEntry) -> None:
        raise AssertionError("nothing is sent by who reads")


class Reader:
    """A scrub of one data directory, whose process may be killed."""

    def __init__(self, directory: Path, checks: Checks) -> None:
        self.clock = Clock()
        self._directory = directory
        self._checks = checks
        self.begin()

    def begin(self) -> None:
        self.journal = CountingJournal(self._directory / "ledger-counter", "broker", COUNTERS_KEY)
        speaker = Speaker(self.journal.source, "h", "a", "dc1", 60_000)
        counter = Counter(self.journal, speaker, Nobody())
        self.scrubbing = Scrubbing(
            self._directory, self._checks, counter, self.clock, lambda: self.clock.seconds
        )

    def follow(self, *led: Led) -> None:
        self.scrubbing.follow(CountingReport(list(led), []))

    @property
    def damaged(self) -> list[tuple[str, int, int]]:
        return [
            (each["topic"], each["offsets"]["first"], each["offsets"]["count"])
            for entry in self.journal.pending
            for each in entry["damaged"]
        ]

    @property
    def reported(self) -> dict[str, tuple[int, int]]:
        """What the ledger will have last of each topic's log: when it was read."""
        return {
            each["topic"]: (each["recent"], each["whole"])
            for entry in self.journal.pending
            for each in entry["scrubbed"]
        }

    def round(self) -> float:
        """To its end; how many seconds it takes."""
        begin = self.clock.seconds
        while (pause := self.scrubbing.step()) is not None:
            self.clock.seconds += pause
        return self.clock.seconds - begin


def a_log(directory: Path) -> Log:
    directory.mkdir()
    log = create(directory, segment_bytes=3000)
    grow(log, 60, 3, size=20)
    return log


def led(topic: str, log: Log, start: int = 0) -> Led:
    directory, end = str(log.directory), log.exposed_offset
    epochs = [EpochStart(0, 0)]
    topic_id = topic_id_text(log.topic_id)
    return Led(topic, topic_id, 0, directory, start, end, 0, compacts=False, end=end, epochs=epochs)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return a_log(tmp_path / "one")


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path, WHOLE)


def test_each_round_reads_all_of_it_at_the_rate(log: Log, reader: Reader, tmp_path: Path) -> None:
    assert reader.scrubbing.step() is None, "nothing is known yet"
    other = a_log(tmp_path / "two")
    reader.follow(led("t", log), led("u", other))
    size = log.size + other.size
    assert reader.round() == pytest.approx(size / 1000)
    assert reader.scrubbing.taken()[:3] == ([], size, reader.clock.now)
    assert reader.round() == 0, "the next is not due"
    reader.clock.now += HOUR
    assert reader.round() == pytest.approx(size / 1000)


def test_damage_is_journalled_and_told(log: Log, reader: Reader) -> None:
    second = names(log, ".log")[1]
    overwrite(log_file(log, second), 100, b"spoilt")
    reader.follow(led("t", log))
    reader.round()
    assert reader.damaged == [("t", second, 3)]
    (found, *_), *_ = reader.scrubbing.taken()
    assert found[:4] == ("t", 0, second, 3)
    assert log_file(log, second).name in found.reason


def test_what_was_deleted_is_not_missed(log: Log, reader: Reader) -> None:
    overwrite(log_file(log, 0), 100, b"spoilt")
    reader.follow(led("t", log, start=3))
    reader.round()
    assert reader.damaged == []


def test_a_restart_goes_on_where_it_was(log: Log, reader: Reader, tmp_path: Path) -> None:
    other = a_log(tmp_path / "two")
    report = (led("t", log), led("u", other))
    reader.follow(*report)
    while not (tmp_path / "scrub").exists():
        reader.clock.seconds += reader.scrubbing.step() or 0.0
    first = log_file(log, 0).stat().st_size
    reader.begin()
    reader.follow(*report)
    assert reader.round() == pytest.approx((log.size - first + other.size) / 1000)
    reader.begin()
    reader.follow(*report)
    assert reader.round() == 0
    assert reader.scrubbing.taken()[2] == reader.clock.now


def test_what_goes_away_meanwhile_is_passed_over(log: Log, reader: Reader, tmp_path: Path) -> None:
    other = a_log(tmp_path / "two")
    reader.follow(led("t", log), led("u", other))
    reader.scrubbing.step()
    for path in log.directory.glob("*.log"):
        path.unlink()
    seconds = reader.round()
    assert seconds >= other.size / 1000
    assert reader.damaged == []
    assert reader.scrubbing.taken()[2] == reader.clock.now


def test_a_file_of_progress_that_cannot_be_read_or_that_the_release_before_wrote(
    log: Log, reader: Reader, tmp_path: Path
) -> None:
    before = (
        f'{{"began_millis":1790000000000,"topic":"t","partition":0,"next_offset":'
        f'{names(log, ".log")[2]},"is_over":false,"finished_millis":-1}}'
    )
    for progress in ("{", before):
        (tmp_path / "scrub").write_text(progress)
        reader.begin()
        reader.follow(led("t", log))
        assert reader.round() == pytest.approx(log.size / 1000), "it is not known of which topic"
        assert reader.scrubbing.taken()[3] == [("t", 0, reader.clock.now, reader.clock.now)]


YOUNG = Checks(scrub_seconds=0, young_seconds=60.0, young_bytes_per_second=1000)
MINUTE = 60_000


def age(log: Log, base: int, millis: int) -> None:
    """That segment was written to last at this time."""
    os.utime(log_file(log, base), ns=(millis * 1_000_000,) * 2)


def age_all(log: Log, reader: Reader, *, old: int) -> None:
    """As many segments, the first ones, were written two days ago, and the others just now."""
    for number, base in enumerate(names(log, ".log")):
        age(log, base, reader.clock.now - (2 * 24 * HOUR if number < old else 0))


def test_a_young_pass_reads_what_was_written_in_the_last_day(log: Log, tmp_path: Path) -> None:
    reader = Reader(tmp_path, YOUNG)
    age_all(log, reader, old=2)
    first, _, *young = names(log, ".log")
    reader.follow(led("t", log))
    size = sum(log_file(log, base).stat().st_size for base in young)
    assert reader.round() == pytest.approx(size / 1000)
    assert reader.scrubbing.taken()[3] == [("t", 0, reader.clock.now, -1)]
    assert reader.reported == {"t": (reader.clock.now, 0)}
    for base in (first, young[1]):
        overwrite(log_file(log, base), 100, b"spoilt")
    age_all(log, reader, old=2)
    reader.clock.now += MINUTE - 1
    assert reader.round() == 0, "the next is not due"
    for _ in range(2):
        reader.clock.now += MINUTE
        reader.round()
        assert reader.damaged == [("t", young[1], 3)], "reported once"


def test_a_log_that_is_all_young_is_read_whole(log: Log, tmp_path: Path) -> None:
    reader = Reader(tmp_path, YOUNG)
    age_all(log, reader, old=0)
    reader.follow(led("t", log))
    reader.round()
    assert reader.reported == {"t": (reader.clock.now, reader.clock.now)}
    reader.clock.now += MINUTE
    reader.round()
    assert reader.reported["t"][0] < reader.clock.now, "an entry waits, and none is added"
    reader.journal.acknowledged()
    reader.clock.now += MINUTE
    reader.round()
    assert reader.reported == {"t": (reader.clock.now, reader.clock.now)}


def test_the_log_that_has_waited_longest_comes_first(log: Log, tmp_path: Path) -> None:
    reader = Reader(tmp_path, YOUNG)
    report = led("t", log)
    reader.follow(report)
    reader.round()
    other = a_log(tmp_path / "two")
    overwrite(log_file(other, 0), 100, b"spoilt")
    reader.begin()
    reader.follow(report, led("u", other))
    for _ in range(2):
        reader.clock.seconds += reader.scrubbing.step() or 0.0
    assert [each[0] for each in reader.damaged] == ["u"]


def test_both_readings_have_a_rate_of_their_own(log: Log, tmp_path: Path) -> None:
    both = Checks(scrub_bytes_per_second=1000, young_bytes_per_second=4000)
    reader = Reader(tmp_path, both)
    age_all(log, reader, old=0)
    reader.follow(led("t", log))
    assert reader.round() == pytest.approx(log.size / 1000), "at once, the slower is slower"
    found, count, _, checked = reader.scrubbing.taken()
    assert (found, count) == ([], 2 * log.size)
    assert checked == [("t", 0, reader.clock.now, reader.clock.now)]


def test_a_log_whose_disk_fails_does_not_count_as_read(log: Log, tmp_path: Path) -> None:
    for checks in (YOUNG, WHOLE):
        reader = Reader(tmp_path, checks)
        base = names(log, ".log")[1]
        path = log_file(log, base)
        content = path.read_bytes()
        path.unlink()
        path.mkdir()  # reading it fails
        reader.follow(led("t", log))
        reader.round()
        assert reader.scrubbing.taken()[3] == []
        path.rmdir()
        path.write_bytes(content)
        (tmp_path / "scrub").unlink()


@pytest.mark.parametrize("checks", [YOUNG, WHOLE])
def test_a_log_of_another_topic_of_that_name_is_not_damaged(
    log: Log, tmp_path: Path, checks: Checks
) -> None:
    """The last report is of the topic that was deleted."""
    reader = Reader(tmp_path, checks)
    before, now = UUID(int=1), UUID(int=2)
    stale = led("t", log)._replace(topic_id=topic_id_text(before))
    overwrite(log_file(log, 0), 100, b"spoilt")
    for topic_id, damaged in ((now, []), (before, [("t", 0, 3)])):
        text = f"version: 0\ntopic_id: {topic_id_text(topic_id)}"
        (log.directory / "partition.metadata").write_text(text)
        reader.follow(stale)
        reader.round()
        assert reader.damaged == damaged
        reader.clock.now += HOUR
    assert [each[2:] for each in reader.scrubbing.taken()[3]] != [], "it was read in the end"


def test_a_log_that_is_cut_meanwhile_is_not_damaged(log: Log, tmp_path: Path) -> None:
    *_, last = names(log, ".log")
    file = log_file(log, last)
    content = file.read_bytes()
    for exposed in (last, last + 3):
        reader = Reader(tmp_path, YOUNG)
        reader.follow(led("t", log))
        reader.scrubbing.step()
        file.write_bytes(content[: len(content) // 2])
        reader.follow(led("t", log)._replace(exposed=exposed))
        reader.round()
        assert reader.damaged == []
        file.write_bytes(content)


def test_a_log_that_another_has_led_meanwhile_is_not_damaged(log: Log, tmp_path: Path) -> None:
    """While its last segment is read, that is cut, and written anew up to where it was."""
    *_, last = names(log, ".log")
    file = log_file(log, last)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    before = log.size - len(content)
    for epoch, damaged in ((1, []), (0, [("t", last + 3, 6)])):
        reader = Reader(tmp_path, YOUNG)
        reader.follow(led("t", log))
        count = 0
        while count <= before:
            reader.clock.seconds += reader.scrubbing.step() or 0.0
            count += reader.scrubbing.taken()[1]
        reader.follow(led("t", log)._replace(leader_epoch=epoch))
        reader.round()
        assert reader.damaged == damaged


def test_times_are_known_after_a_restart(log: Log, tmp_path: Path) -> None:
    reader = Reader(tmp_path, YOUNG)
    reader.follow(led("t", log))
    reader.round()
    (before,) = reader.scrubbing.taken()[3]
    reader.begin()
    reader.follow(led("t", log))
    assert reader.scrubbing.taken()[3] == [before]

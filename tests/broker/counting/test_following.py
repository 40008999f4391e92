"""Reports followed: what is claimed of logs that lose their beginning or their end, and of topics
that go."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.config import Checks
from broker.counting.following import Following
from broker.counting.reports import Led, Report, Task
from ledger.counting.batches import Json
from ledger.counting.counter import Counter
from ledger.counting.entries import Speaker
from ledger.counting.journal import CountingJournal
from tests.broker.storage.compacted_log import Story, filled, flush
from wire.records import Codec


class Counted:
    """A counter of a data directory, and what it has told."""

    def __init__(self, directory: Path) -> None:
        self.told: list[Json] = []
        self.journal = CountingJournal(directory / "ledger-counter", "broker")
        speaker = Speaker(self.journal.source, "h", "a", "dc1", 60_000)
        task = Task(str(directory), "", "", "dc1", "h", 60_000, 10.0, Checks())
        self._following = Following(task, Counter(self.journal, speaker, self))

    def send(self, entry: Json) -> None:
        self.told.append(entry)

    def look(self, *led: Led, not_served: Sequence[tuple[str, int]] = ()) -> str:
        return self._following.look(Report(list(led), list(not_served))).trouble

    def offsets(self, topic_id: str = "one") -> list[tuple[int, int]]:
        return [
            (each["first"], each["first"] + each["count"])
            for entry in self.told
            for passage in entry["passages"]
            if passage["topic_id"] == topic_id
            for each in passage["offsets"]
        ]

    @property
    def epochs(self) -> list[int]:
        return [each["leader_epoch"] for entry in self.told for each in entry["passages"]]

    @property
    def known(self) -> set[str]:
        return {key.topic_id for key in self.journal.places}


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return filled(tmp_path)


@pytest.fixture
def counted(tmp_path: Path) -> Counted:
    return Counted(tmp_path)


def led_of(story: Story) -> Led:
    log = story.log
    start, exposed = log.start_offset, log.exposed_offset
    return Led("t", "one", 0, str(log.directory), start, exposed, 3, compacts=False)


def test_only_what_is_new_is_told(story: Story, counted: Counted) -> None:
    end = story.log.end_offset
    assert counted.look(led_of(story)) == counted.look(led_of(story)) == ""
    assert counted.offsets() == [(0, end)]
    story.append([(1, b"new")], Codec.NONE)
    assert counted.look(led_of(story)) == ""
    assert counted.offsets() == [(0, end)], "it is not exposed yet"
    flush(story.log)
    assert counted.look(led_of(story)) == ""
    assert counted.offsets() == [(0, end), (end, end + 1)]
    story.log.abandon()


def test_what_is_gone_before_it_is_counted_is_not_claimed(story: Story, counted: Counted) -> None:
    early = led_of(story)._replace(exposed=4)
    counted.look(early)
    assert counted.offsets() == [(0, 4)]
    counted.look(led_of(story)._replace(start=41))
    # The batch in which the log begins now is told whole.
    assert counted.offsets() == [(0, 4), (40, story.log.end_offset)]
    story.log.abandon()


def test_after_a_log_was_cut_counting_goes_on_at_its_end(story: Story, counted: Counted) -> None:
    counted.look(led_of(story))
    counted.look(led_of(story)._replace(exposed=40))
    assert counted.offsets() == [(0, 80)]
    counted = Counted(story.directory)
    counted.look(led_of(story)._replace(exposed=50))
    assert counted.offsets() == [(40, 50)]
    # Two passages about the same offsets are never of one leader epoch.
    counted.look(led_of(story)._replace(exposed=60))
    assert counted.offsets() == [(40, 50), (50, 60)]
    assert counted.epochs == [3, 3]
    counted.look(led_of(story)._replace(exposed=50, leader_epoch=7))
    counted.look(led_of(story)._replace(exposed=60, leader_epoch=7))
    assert counted.epochs == [3, 3, 7]
    story.log.abandon()


def test_a_topic_made_anew_begins_at_its_beginning(story: Story, counted: Counted) -> None:
    counted.look(led_of(story))
    counted.look(led_of(story)._replace(topic_id="two"))
    assert counted.offsets("two") == counted.offsets("one")
    assert counted.known == {"two"}
    story.log.abandon()


def test_a_partition_is_forgotten_when_its_directory_is_gone(
    story: Story, counted: Counted
) -> None:
    led = led_of(story)
    counted.look(led)
    counted.look(not_served=[("t", 0)])
    counted.look()
    assert counted.known == {"one"}, "it is only not led, or not served"
    story.log.abandon()
    shutil.rmtree(story.log.directory)
    counted.look(not_served=[("t", 0)])
    assert counted.known == {"one"}
    counted.look()
    assert counted.known == set()


def test_trouble_with_one_does_not_keep_the_others(
    story: Story, counted: Counted, tmp_path: Path
) -> None:
    spoilt = tmp_path / "u-0"
    shutil.copytree(story.log.directory, spoilt)
    first = min(spoilt.glob("*.log"))
    first.write_bytes(first.read_bytes()[:-1] + bytes(70))
    bad = led_of(story)._replace(topic="u", topic_id="bad", directory=str(spoilt))
    gone = led_of(story)._replace(topic="v", topic_id="gone", directory=str(tmp_path / "no"))
    assert f"{first.name}: no batch at byte" in counted.look(bad, gone, led_of(story))
    assert counted.offsets() == [(0, story.log.end_offset)]
    assert len(counted.offsets("bad")) == 1
    assert counted.offsets("gone") == []
    story.log.abandon()

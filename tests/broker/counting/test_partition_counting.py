"""Reports followed: what is claimed of logs that lose their beginning or their end, and of topics
that go."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from broker.configs.config import Checks
from broker.counting.reports import SIZE_BYTES, CountingReport, Led, LostOffsets, framed
from schemas.envelope import Decoder, Encoder
from schemas.event_schemas import LEDGER, built_in
from tests.broker.counting.counted import Counted, led_at, under
from tests.broker.storage.compacted_log import Story, filled, flush
from tests.broker.storage.log_files import (
    append,
    batch,
    create,
    grow,
    log_file,
    overwrite,
    positions,
)
from wire.mirrored import MirrorOf
from wire.record_batches.records import Codec


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    story = filled(tmp_path)
    yield story
    story.log.abandon()


@pytest.fixture
def counted(tmp_path: Path) -> Counted:
    return Counted(tmp_path)


def led_of(story: Story) -> Led:
    return led_at(story.log, 3)


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


def test_what_is_gone_before_it_is_counted_is_not_claimed(story: Story, counted: Counted) -> None:
    early = led_of(story)._replace(exposed=4)
    counted.look(early)
    assert counted.offsets() == [(0, 4)]
    counted.look(led_of(story)._replace(start=41))
    # The batch in which the log begins now is told whole.
    assert counted.offsets() == [(0, 4), (40, story.log.end_offset)]


def test_after_a_log_was_cut_counting_goes_on_at_its_end(story: Story, counted: Counted) -> None:
    counted.look(led_of(story))
    led = under(led_of(story), 3, 40)
    counted.look(led._replace(exposed=40, end=40))
    assert counted.offsets() == [(0, 80)]
    counted = Counted(story.directory)
    counted.look(led._replace(exposed=50, end=50))
    assert counted.offsets() == [(40, 50)]
    # Two passages about the same offsets are never of one leader epoch.
    counted.look(led._replace(exposed=60, end=60))
    assert counted.offsets() == [(40, 50), (50, 60)]
    assert counted.epochs == [3, 3]
    later = under(led, 7, 50)
    counted.look(later._replace(exposed=50, end=50))
    counted.look(later._replace(exposed=60, end=60))
    assert counted.epochs == [3, 3, 7]


def test_a_topic_made_anew_begins_at_its_beginning(story: Story, counted: Counted) -> None:
    counted.look(led_of(story))
    counted.look(led_of(story)._replace(topic_id="two"))
    assert counted.offsets("two") == counted.offsets("one")
    assert counted.known == {"two"}


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


def test_damage_in_one_is_named_and_does_not_keep_the_others(
    story: Story, counted: Counted, tmp_path: Path
) -> None:
    spoilt = tmp_path / "u-0"
    shutil.copytree(story.log.directory, spoilt)
    first, second, *_ = sorted(spoilt.glob("*.log"))
    end = int(second.stem)
    first.write_bytes(first.read_bytes()[:-9] + b"spoilt..." + bytes(70))
    bad = led_of(story)._replace(topic="u", topic_id="bad", directory=str(spoilt))
    gone = led_of(story)._replace(topic="v", topic_id="gone", directory=str(tmp_path / "no"))
    assert counted.look(bad, gone, led_of(story)) == ""
    assert counted.offsets() == [(0, story.log.end_offset)]
    assert counted.offsets("gone") == []
    found = [each for entry in counted.told for each in entry["damaged"]]
    assert {each["topic"] for each in found} == {"u"}
    named = [
        offset
        for each in found
        for offset in range(each["offsets"]["first"], sum(each["offsets"].values()))
    ]
    told = [offset for a, b in counted.offsets("bad") for offset in range(a, b)]
    assert sorted(named + told) == list(range(story.log.end_offset))
    assert named[-1] == end - 1


def lost_of(story: Story, first: int, epoch: int, resumes: int) -> LostOffsets:
    return LostOffsets(9, "t", "one", 0, epoch, first, 80 - first, resumes, "it was cut")


def test_a_loss_is_told_before_anything_else_and_counting_goes_back(
    story: Story, counted: Counted
) -> None:
    """Although the log has come beyond where it was counted to, when that is looked at."""
    counted.look(led_of(story))
    story.append([(number, b"new") for number in range(30)], Codec.NONE)
    flush(story.log)
    again = under(led_of(story), 4, 60)
    lost = lost_of(story, 60, 4, 60)
    looked = counted.told_of(again, lost)
    assert looked.told == [9]
    assert counted.told[-2]["withdrawn"] == [
        {
            "topic": "t",
            "topic_id": "one",
            "partition": 0,
            "leader_epoch": 4,
            "first": 60,
            "count": 20,
            "reason": "it was cut",
            "resumes": 60,
        }
    ]
    assert counted.offsets() == [(0, 80), (60, 110)]
    assert counted.epochs[-1] == 4
    # Handed in once more, as after a crash, it is said again, and counted is nothing.
    counted.told_of(again, lost)
    assert counted.offsets() == [(0, 80), (60, 110)]


def test_a_loss_is_journalled_although_nobody_can_be_told(story: Story, tmp_path: Path) -> None:
    counted = Counted(tmp_path)
    counted.is_silent = True
    looked = counted.told_of(led_of(story), lost_of(story, 70, 1, 70))
    assert looked.told == [9]
    assert looked.trouble
    again = Counted(tmp_path)
    again.look(led_of(story))
    assert [len(each.get("withdrawn", [])) for each in again.told] == [1, 0]


def test_a_passage_is_of_one_leader_epoch(tmp_path: Path) -> None:
    log = create(tmp_path)
    for epoch in (0, 0, 2, 2, 2, 5):
        append(log, batch(3), leader_epoch=epoch)
    flush(log)
    led = led_at(log, 5)
    counted = Counted(tmp_path)
    counted.look(led)
    assert counted.offsets() == [(0, 6), (6, 15), (15, 18)]
    assert counted.epochs == [0, 2, 5]
    # One that nobody can have written is not believed: it stands outside the CRC.
    overwrite(log_file(log), positions(log)[3] + 12, b"\x11")
    (tmp_path / "ledger-counter").unlink()
    counted = Counted(tmp_path)
    counted.look(led)
    assert counted.offsets() == [(0, 6), (6, 15), (15, 18)]
    assert counted.epochs == [0, 2, 5]
    log.abandon()


@pytest.mark.parametrize("checks", [True, False])
def test_a_batch_with_a_wrong_crc_is_named_and_not_counted(tmp_path: Path, checks: bool) -> None:
    """Where CRCs are not computed, only batches that have to be opened show it."""
    log = create(tmp_path)
    grow(log, 10, 3)
    overwrite(log_file(log), positions(log)[4] + 75, b"spoilt")
    counted = Counted(tmp_path, Checks(landed=checks))
    led = led_at(log, 0)
    assert counted.look(led) == ""
    assert counted.offsets() == [(0, 12), (15, 30)]
    assert [each["offsets"] for entry in counted.told for each in entry["damaged"]] == [
        {"first": 12, "count": 3}
    ]
    log.abandon()


def test_of_a_copy_it_is_told_what_it_is_a_copy_of(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(3))
    flush(log)
    counted = Counted(tmp_path)
    led = led_at(log, 0)._replace(mirror_of=MirrorOf("dc1", "clicks", "abc" + 19 * "x"))
    report = framed(CountingReport([led], []))[SIZE_BYTES:]
    (passed,) = msgspec.msgpack.decode(report, type=CountingReport).led
    assert counted.look(passed) == ""
    append(log, batch(2))
    flush(log)
    assert counted.look(led_at(log, 0)) == "", "it was opened for others to write"
    origin = {"cluster": "dc1", "topic": "clicks", "topic_id": "abc" + 19 * "x"}
    passages = counted.passages
    assert [(each["offsets"][-1], each.get("origin")) for each in passages if each["windows"]] == [
        ({"first": 0, "count": 3}, origin),
        ({"first": 3, "count": 2}, None),
    ]
    assert all("origin" not in each or each["origin"] == origin for each in passages)
    schema = built_in(LEDGER)
    decoder = Decoder(lambda _: schema, schema)
    for entry in counted.told:
        read = decoder.decode(Encoder(schema, 7).encode(entry))
        assert [each["origin"] for each in read["passages"]] == [
            each.get("origin") for each in entry["passages"]
        ]
    log.abandon()

"""Batches read behind the broker's back: all of them once, while files come, change and go."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from broker.counting.log_batches import NoBatch, runs
from broker.storage import layout
from broker.storage.log import Log
from ledger.counting.journal import CountPosition
from tests.broker.storage.compacted_log import Story, filled, flush, inline
from wire.record_batches.batch import BatchHeader, headers
from wire.record_batches.records import Codec


def read(
    log: Log, place: CountPosition, exposed: int | None = None
) -> tuple[list[int], CountPosition]:
    """Base offsets, and the place behind the last."""
    found = []
    for run in runs(log.directory, place, log.exposed_offset if exposed is None else exposed):
        position = run.byte
        for header in map(BatchHeader._make, run.headers):
            assert [each for _, each in headers(run.read(position, header.size))] == [header]
            found.append(header.base_offset)
            position += header.size
            place = CountPosition(header.next_offset, run.segment, position)
    return found, place


def in_files(log: Log) -> list[int]:
    return [
        header.base_offset
        for path in sorted(log.directory.glob("*" + layout.LOG))
        for _, header in headers(path.read_bytes())
    ]


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    story = filled(tmp_path)
    yield story
    story.log.abandon()


def test_a_log_is_read_over_all_its_segments(story: Story) -> None:
    assert len(list(story.log.directory.glob("*.log"))) > 2
    found, place = read(story.log, CountPosition(0))
    assert found == in_files(story.log)
    assert place.next_offset == story.log.end_offset


def test_what_is_not_exposed_is_not_read(story: Story) -> None:
    exposed = story.log.exposed_offset
    story.append([(1, b"later")], Codec.NONE)
    found, _ = read(story.log, CountPosition(0), exposed)
    assert found == in_files(story.log)[:-1]


def test_reading_goes_on_anywhere_with_and_without_the_hint(story: Story) -> None:
    whole = in_files(story.log)
    for count in range(len(whole)):
        behind = whole[count]
        assert read(story.log, CountPosition(behind))[0] == whole[count:]
    place, pieces = CountPosition(0), []
    for exposed in range(1, story.log.end_offset + 1, 3):
        found, place = read(story.log, place, exposed)
        pieces += found
    found, place = read(story.log, place)
    assert pieces + found == whole
    story.append([(1, b"new")], Codec.NONE)
    flush(story.log)
    assert read(story.log, place)[0] == in_files(story.log)[-1:]


def test_a_hint_of_other_files_is_not_believed(story: Story) -> None:
    whole = in_files(story.log)
    for byte in (1, 61, 10**9, -5):
        assert read(story.log, CountPosition(whole[3], 0, byte))[0] == whole[3:]


def test_a_compacted_log_is_read_on(story: Story) -> None:
    """Each place of before is one from which all that is left behind it is read."""
    places = [CountPosition(0)]
    for exposed in range(1, story.log.end_offset + 1):
        places.append(read(story.log, places[-1], exposed)[1])
    story.compact(inline)
    left = in_files(story.log)
    assert len(left) < len(places)
    for place in places:
        assert read(story.log, place)[0] == [each for each in left if each >= place.next_offset]


def test_an_open_segment_may_be_replaced(story: Story) -> None:
    whole = in_files(story.log)
    reading = runs(story.log.directory, CountPosition(0), story.log.exposed_offset)
    first = next(reading)
    story.compact(inline)
    assert first.headers[0][0] == whole[0]
    assert len(first.read(first.byte, 100)) == 100
    found = []
    with suppress(FileNotFoundError):  # merged into the one before: the next report goes on
        found += [header[0] for run in reading for header in run.headers]
    assert found == sorted(set(found))


def test_damage_in_the_middle_is_said(story: Story) -> None:
    path = sorted(story.log.directory.glob("*.log"))[1]
    content = bytearray(path.read_bytes())
    content[16] = 9  # the format of its first batch
    path.write_bytes(content)
    with pytest.raises(NoBatch, match=f"{path.name}: no batch at byte 0"):
        read(story.log, CountPosition(0))

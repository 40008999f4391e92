"""A log that takes back what its leader has not: with gaps, and with a crash at every step."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path

import pytest

from broker.storage import layout
from broker.storage.config import LogConfig
from broker.storage.directory.acknowledged import AcknowledgedFile
from broker.storage.errors import NotNext
from broker.storage.log import Log
from tests.broker.storage.directory_changes import before_each_change
from tests.broker.storage.log_files import (
    NOW,
    TOPIC_ID,
    append,
    batch,
    checkpoint,
    create,
    flush,
    names,
    offsets,
    read_on,
    reopen,
)
from wire.record_batches.batch import read_header, stamp

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100)


def copied(log: Log, base_offset: int, epoch: int = 0, count: int = 3, producer: int = -1) -> None:
    sent = batch(
        count, size=20, producer=(producer, 0, base_offset) if producer >= 0 else (-1,) * 3
    )
    stamp(memoryview(sent), base_offset, epoch)
    log.append_copy(memoryview(sent), read_header(sent), NOW)


def contents(log: Log) -> list[bytes]:
    return [data for _, data in read_on(log, log.start_offset)]


@dataclass
class Kept:
    """A log, and how far it is remembered to have come."""

    home: Path
    log: Log
    acknowledged: AcknowledgedFile

    @classmethod
    def of(cls, home: Path, log: Log) -> "Kept":
        acknowledged = AcknowledgedFile(home / "acknowledged")
        slot = acknowledged.slot(TOPIC_ID, 0)
        slot.begin(log.start_offset, log.end_offset, 1)
        log.remember(slot)
        return cls(home, log, acknowledged)

    @classmethod
    def opened(cls, home: Path) -> "Kept":
        """As a broker does after a crash."""
        acknowledged = AcknowledgedFile(home / "acknowledged")
        known = acknowledged.known(TOPIC_ID, 0)
        acknowledged.close()
        log = Log.open(
            home / "topic-0",
            CONFIG,
            recovery_point=0,
            start_offset=0,
            clean=False,
            now_ms=NOW,
            reached=known.end if known else 0,
        )
        return cls.of(home, log)

    def close(self) -> None:
        self.log.abandon()
        self.acknowledged.close()


def grown(home: Path) -> Kept:
    """Several segments, two epochs, a producer; checkpointed on the way."""
    home.mkdir()
    log = Log.create(home / "topic-0", TOPIC_ID, CONFIG)
    kept = Kept.of(home, log)
    for number in range(30):
        epoch = 0 if number < 15 else 2
        append(log, batch(3, size=20, producer=(5, 0, 3 * number)), leader_epoch=epoch)
        if number % 4 == 0:
            flush(log)
        if number == 22:
            checkpoint(log)
    flush(log)
    return kept


GOING_BACK: dict[str, Callable[[Log], None]] = {
    "into the last segment": lambda log: log.truncate(86, NOW),
    "over segments": lambda log: log.truncate(40, NOW),
    "to a segment's beginning": lambda log: log.truncate(names(log, layout.LOG)[2], NOW),
    "to where it begins": lambda log: log.truncate(7, NOW),
    "to nothing, further on": lambda log: log.begin_anew(500, NOW),
    "to nothing, further back": lambda log: log.begin_anew(3, NOW),
}


@pytest.mark.not_quick("goes on from a crash at each of very many steps")
@pytest.mark.parametrize("way", GOING_BACK)
def test_a_crash_at_any_step_is_gone_on_from(tmp_path: Path, way: str) -> None:
    go_back = GOING_BACK[way]
    kept = grown(tmp_path / "whole")
    kept.log.delete_before(7)
    flush(kept.log)
    before, ended = contents(kept.log), kept.log.end_offset
    copies: list[Path] = []

    def copy() -> None:
        copies.append(tmp_path / f"copy-{len(copies)}")
        shutil.copytree(kept.home, copies[-1])

    with before_each_change(copy):
        go_back(kept.log)
    copy()
    after, end, epochs = contents(kept.log), kept.log.end_offset, kept.log.epochs.entries
    assert len(copies) > 3
    assert len(after) < len(before) == 28
    for home in copies:
        again = Kept.opened(home)
        found = contents(again.log)
        assert found == before[: len(found)], "there is no hole"
        assert len(found) >= len(after)
        assert not found or again.log.end_offset <= ended
        go_back(again.log)
        assert (contents(again.log), again.log.end_offset) == (after, end)
        assert again.log.epochs.entries == epochs
        copied(again.log, end, epoch=3)
        flush(again.log)
        assert contents(again.log)[:-1] == after
        again.close()
        once_more = Kept.opened(home)
        assert once_more.log.end_offset == end + 3
        assert once_more.log.epochs.latest == 3
        once_more.close()
    kept.close()


def test_a_producer_goes_on_where_the_log_does(tmp_path: Path) -> None:
    kept = grown(tmp_path / "it")
    kept.log.truncate(60, NOW)
    assert append(kept.log, batch(3, size=20, producer=(5, 0, 57))).duplicate
    again = append(kept.log, batch(3, producer=(5, 0, 60)))
    assert again == (60, 62, False)
    kept.close()


def unseen(tmp_path: Path) -> Log:
    """Ten batches of three; of none it is known whether others have it."""
    log = create(tmp_path)
    log.replicated(0)
    for base_offset in range(0, 30, 3):
        copied(log, base_offset)
    flush(log)
    return log


def test_readers_see_what_the_other_replicas_have(tmp_path: Path) -> None:
    log = unseen(tmp_path)
    assert log.read(0, 1000) is None
    log.replicated(12)
    assert offsets(log) == [0, 3, 6, 9]
    log.replicated(6)
    assert offsets(log) == [0, 3, 6, 9], "what was seen once is seen"
    log.truncate(20, NOW)
    assert (log.end_offset, log.exposed_offset) == (18, 12)
    assert offsets(log) == [0, 3, 6, 9]
    log.truncate(8, NOW)
    assert (log.end_offset, log.exposed_offset) == (6, 6)
    copied(log, 6, epoch=1)
    copied(log, 9, epoch=1)
    flush(log)
    assert offsets(log) == [0, 3]
    log.replicated(9)
    assert offsets(log) == [0, 3, 6]
    log.replicated(inf)
    assert offsets(log) == [0, 3, 6, 9]
    log.abandon()


def test_what_others_have_of_another_log_is_not_shown(tmp_path: Path) -> None:
    log = unseen(tmp_path)
    log.replicated(12)
    log.truncate(8, NOW)
    copied(log, 6, epoch=1, count=4)
    copied(log, 10, epoch=1)
    flush(log)
    assert (log.end_offset, log.exposed_offset) == (13, 6), "its leader has not said so yet"
    assert offsets(log) == [0, 3]
    log.replicated(10)
    assert offsets(log) == [0, 3, 6]
    log.begin_anew(5, NOW)
    copied(log, 5, epoch=2, count=4)
    flush(log)
    assert (log.exposed_offset, offsets(log)) == (5, [])
    log.abandon()


def test_what_was_seen_stays_seen_where_the_log_goes_back_to_it(tmp_path: Path) -> None:
    log = create(tmp_path)
    for base_offset in (0, 3, 6):
        copied(log, base_offset)
    flush(log)
    log.replicated(inf)
    copied(log, 9)
    log.replicated(3)  # a new leader knows less at first
    log.truncate(9, NOW)
    assert (log.exposed_offset, offsets(log)) == (9, [0, 3, 6])
    log.abandon()


def with_gaps(tmp_path: Path) -> Log:
    """As a follower has a log that its leader compacted: 0 to 2, 10 to 12, 40 to 42, …"""
    log = create(tmp_path, segment_bytes=300)
    for base_offset in (0, 10, 40, 43, 100, 103):
        copied(log, base_offset)
        flush(log)
    return log


def test_a_compacted_leader_leaves_gaps(tmp_path: Path) -> None:
    log = with_gaps(tmp_path)
    assert len(names(log, layout.LOG)) > 1
    with pytest.raises(NotNext, match="ends at 106, and the copied batch begins at 105"):
        copied(log, 105)
    log.abandon()
    again = reopen(log, recovery_point=0)
    assert offsets(again) == [0, 10, 40, 43, 100, 103]
    assert [header.base_offset for header, _ in read_on(again, 50)] == [100, 103]
    again.abandon()


@pytest.mark.parametrize(
    ("offset", "left", "end"),
    [
        (104, [0, 10, 40, 43, 100], 103),
        (70, [0, 10, 40, 43], 46),
        (100, [0, 10, 40, 43], 100),
        (45, [0, 10, 40], 43),
        (20, [0, 10], 13),
        (9, [0], 3),
        (1, [], 0),
    ],
)
def test_going_back_in_gaps(tmp_path: Path, offset: int, left: list[int], end: int) -> None:
    log = with_gaps(tmp_path)
    log.truncate(offset, NOW)
    assert (offsets(log), log.end_offset) == (left, end)
    copied(log, end, epoch=4)
    flush(log)
    log.abandon()
    again = reopen(log, recovery_point=0)
    assert offsets(again) == [*left, end]
    again.abandon()


def test_where_all_that_is_left_was_deleted(tmp_path: Path) -> None:
    log = with_gaps(tmp_path)
    log.delete_before(30)
    flush(log)
    log.truncate(35, NOW)
    assert (log.start_offset, log.end_offset, offsets(log)) == (35, 35, [])
    copied(log, 35)
    flush(log)
    log.abandon()
    again = reopen(log, recovery_point=0)
    assert (again.start_offset, offsets(again)) == (35, [35])
    again.abandon()


def test_what_is_not_there_cannot_be_taken_back(tmp_path: Path) -> None:
    kept = grown(tmp_path / "it")
    before = contents(kept.log)
    kept.log.truncate(90, NOW)
    kept.log.truncate(1000, NOW)
    assert contents(kept.log) == before
    kept.close()

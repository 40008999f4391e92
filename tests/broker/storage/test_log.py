"""Appending, flushing and reading one log, without crashes."""

import errno
import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.storage.config import LogConfig
from broker.storage.errors import LogOffline, NotWritten, SequenceError
from broker.storage.log import Log
from broker.storage.segments.batches import Appended
from harness.processes.open_files import open_files
from tests.broker.storage.log_files import (
    NOW,
    TOPIC_ID,
    append,
    batch,
    checkpoint,
    content,
    create,
    flush,
    grow,
    log_file,
    names,
    offsets,
    read_on,
    reopen,
)
from wire.errors import ErrorCode
from wire.record_batches.batch import check_batch


def test_a_batch_is_stamped_and_stored_as_it_came(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(3))
    sent = batch(2, size=50)
    original = bytes(sent)
    assert append(log, sent, leader_epoch=7) == Appended(3, 4, False)
    flush(log)
    stored = log_file(log).read_bytes()[-len(sent) :]
    assert stored == bytes(sent)
    assert stored[17:] == original[17:], "only what the CRC does not cover may change"
    header = check_batch(memoryview(stored))
    assert (header.base_offset, header.leader_epoch) == (3, 7)
    assert log.epochs.entries == [(0, 0), (7, 3)]


def test_one_flush_at_a_time_and_nothing_is_seen_before_it_is_completed(tmp_path: Path) -> None:
    log = create(tmp_path)
    flush(log)  # the names of its files
    assert log.begin_flush() is None
    append(log, batch())
    assert log.read(0, 1000) is None
    ticket = log.begin_flush()
    assert ticket is not None
    with pytest.raises(RuntimeError):
        log.begin_flush()
    append(log, batch())
    ticket.run()
    assert (log.end_offset, log.flushed_offset, log.exposed_offset) == (2, 0, 0)
    log.complete_flush(ticket)
    assert (log.end_offset, log.flushed_offset, log.exposed_offset) == (2, 1, 1)
    assert [header.base_offset for header, _ in read_on(log, 0)] == [0]
    with pytest.raises(RuntimeError):
        log.complete_flush(ticket)


def test_an_answer_ends_at_the_last_index_entry_that_fits(tmp_path: Path) -> None:
    log = create(tmp_path, index_interval_bytes=500)
    for number in range(200):
        append(log, batch(1 + number % 3, size=10 + number * 7 % 90))
    flush(log)
    piece = log.read(0, 5000)
    assert piece is not None
    assert 4000 < piece.length <= 5000


def test_segments_roll_at_their_size(tmp_path: Path) -> None:
    """And a batch that is larger has one to itself."""
    log = create(tmp_path, segment_bytes=1000, index_interval_bytes=0)
    for _ in range(40):
        append(log, batch(2))
        assert log_file(log, names(log, ".log")[-1]).stat().st_size <= 1000
    flush(log)
    bases = names(log, ".log")
    assert len(bases) == 5
    assert names(log, ".index") == names(log, ".timeindex") == bases
    assert log.size == sum(log_file(log, base).stat().st_size for base in bases)
    assert offsets(log) == list(range(0, 80, 2))
    assert log.recovery_point == bases[-1], "what is sealed and flushed need not be read again"
    for size in (10, 3000, 10):
        append(log, batch(size=size))
    assert names(log, ".log") == [*bases, 81, 82]


def test_segments_roll_by_age_of_their_first_append(tmp_path: Path) -> None:
    """Which a restart does not forget."""
    log = create(tmp_path, segment_ms=10_000)
    began = int(log_file(log).stat().st_mtime * 1000)
    for after, bases in ((0, [0]), (9_999, [0]), (10_000, [0, 2]), (15_000, [0, 2])):
        append(log, batch(), began + after)
        assert names(log, ".log") == bases
    log = create(tmp_path / "again", segment_ms=10_000)
    append(log, batch(), began)
    log.close()
    log = reopen(log, clean=True, now_ms=began + 5000)
    for after, bases in ((5_000, [0]), (20_000, [0, 2])):
        append(log, batch(), began + after)
        assert names(log, ".log") == bases


def test_segments_roll_when_an_index_is_full(tmp_path: Path) -> None:
    log = create(tmp_path, segment_index_bytes=120, index_interval_bytes=0)
    for number in range(40):
        append(log, batch(timestamps=[NOW + number]))
    assert names(log, ".log") == [0, 10, 20, 30]
    flush(log)
    log.close()
    for base in names(log, ".log"):
        assert log_file(log, base, ".index").stat().st_size <= 120
        assert log_file(log, base, ".timeindex").stat().st_size <= 120


def test_a_relative_offset_never_overflows(tmp_path: Path) -> None:
    log = create(tmp_path)
    most = 2**31 - 1
    for _ in range(3):
        view = memoryview(batch())
        header = check_batch(view)._replace(last_offset_delta=most - 1)
        log.append(view, header, 0, NOW)
    assert names(log, ".log") == [0, most, 2 * most]


def test_a_duplicate_is_answered_with_its_original(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(4))
    sent = batch(3, producer=(9, 0, 0))
    for duplicate in (False, True):
        assert append(log, sent.copy()) == Appended(4, 6, duplicate)
    size = log.size
    with pytest.raises(SequenceError) as refused:
        append(log, batch(1, producer=(9, 0, 9)))
    assert refused.value.code is ErrorCode.out_of_order_sequence_number
    assert (log.size, log.end_offset) == (size, 7)


def test_a_leader_begins_where_the_log_ends(tmp_path: Path) -> None:
    log = create(tmp_path)
    log.begin_epoch(3)
    append(log, batch(2), leader_epoch=3)
    log.begin_epoch(4)
    log.begin_epoch(4)
    append(log, batch(2), leader_epoch=4)
    log.close()
    assert reopen(log, clean=True).epochs.entries == [(3, 0), (4, 2)]


def test_slices_survive_the_deletion_of_their_segment(tmp_path: Path) -> None:
    log = create(tmp_path, segment_bytes=1000)
    grow(log, 40)
    piece = log.read(0, 500)
    assert piece is not None
    before = content(piece)
    log.delete_before(30)
    flush(log)
    assert not log_file(log).exists()
    assert content(piece) == before
    log.delete()
    assert content(piece) == before


def test_files_close_when_nobody_holds_them(tmp_path: Path) -> None:
    def held() -> int:
        return sum(str(tmp_path) in str(path) for path in open_files().values())

    log = create(tmp_path, segment_bytes=1000, index_interval_bytes=100)
    grow(log, 200)
    assert len(names(log, ".log")) > 15
    assert held() <= 9, "an active segment and two others, three files each"
    list(read_on(log, 0, 300))
    assert held() <= 9
    piece = log.read(0, 500)
    assert piece is not None
    log.close()
    assert held() == 1
    del piece
    gc.collect()
    assert held() == 0
    log = reopen(log, clean=True)
    assert held() == 0, "a log at rest keeps nothing open"


def test_a_failed_write_takes_the_log_offline(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch())
    flush(log)
    piece = log.read(0, 100)
    _point_writes_at(log, os.open(log_file(log), os.O_RDONLY))
    with pytest.raises(LogOffline):
        append(log, batch())
    assert os.strerror(errno.EBADF) in log.offline
    for refused in (
        lambda: append(log, batch()),
        lambda: log.read(0, 100),
        lambda: log.offset_for_timestamp(0),
        lambda: log.delete_before(1),
        log.close,
    ):
        with pytest.raises(LogOffline):
            refused()
    assert log.begin_flush() is None
    assert piece is not None


def test_a_segment_that_cannot_be_opened_or_begun_is_tried_again(tmp_path: Path) -> None:
    log = create(tmp_path, segment_bytes=1000)
    grow(log, 6, size=100, flushed=False)
    log.close()
    log = reopen(log, clean=True)
    with _no_more_files():
        for _ in range(2):
            with pytest.raises(NotWritten, match="Too many open files"):
                append(log, batch(size=100))
    assert append(log, batch(size=100)).base_offset == 6
    bases = names(log, ".log")
    with _no_more_files():
        for _ in range(2):
            with pytest.raises(NotWritten, match="Too many open files"):
                append(log, batch(size=1000))
    assert names(log, ".log") == names(log, ".index") == names(log, ".timeindex") == bases
    append(log, batch(size=1000))
    assert names(log, ".log") == [*bases, 7]
    with _no_more_files(), pytest.raises(NotWritten):
        append(log, batch(), leader_epoch=1)
    append(log, batch(), leader_epoch=1)
    flush(log)
    assert [header.leader_epoch for header, _ in read_on(log, 0)] == [0] * 8 + [1]


@contextmanager
def _no_more_files() -> Iterator[None]:
    """Every further file is one too many."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_one = os.open(os.devnull, os.O_RDONLY)
    os.close(next_one)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_failed_flush_takes_the_log_offline_and_is_not_tried_again(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch())
    reader, writer = os.pipe()
    _point_writes_at(log, writer)
    ticket = log.begin_flush()
    assert ticket is not None
    with pytest.raises(OSError, match="Invalid argument"):
        ticket.run()  # a pipe cannot be synced
    os.close(reader)
    log.complete_flush(ticket)
    assert "flush failed: Invalid argument" in log.offline
    assert log.exposed_offset == 0
    with pytest.raises(LogOffline):
        append(log, batch())


def test_a_flush_that_failed_unnoticed_is_noticed_by_closing(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch())
    ticket = log.begin_flush()
    assert ticket is not None
    with pytest.raises(LogOffline):
        log.close()
    assert "did not run" in log.offline


def _point_writes_at(log: Log, target: int) -> None:
    """Put another open file where the log's is: what fails there, fails for the log."""
    path = log_file(log)
    for descriptor, held in open_files().items():
        if descriptor != target and held == path:
            os.dup2(target, descriptor)
            os.close(target)
            return
    raise AssertionError(f"{path} is not open")


def test_a_log_is_deleted_at_once_and_removed_later(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch())
    ticket = log.begin_flush()
    doomed = log.delete()
    assert not log.directory.exists()
    assert doomed.name.startswith("topic-0.")
    assert doomed.name.endswith("-delete")
    with pytest.raises(LogOffline):
        append(log, batch())
    assert ticket is not None
    with pytest.raises(FileNotFoundError):
        ticket.run()  # it was under way
    log.complete_flush(ticket)
    assert log.offline == "deleted"
    Log.create(log.directory, TOPIC_ID, LogConfig())


def test_snapshots_do_not_pile_up(tmp_path: Path) -> None:
    log = create(tmp_path, segment_bytes=2000)
    for number in range(60):
        append(log, batch(producer=(1, 0, number)))
        if number % 3 == 0:
            assert checkpoint(log)[0] == number + 1
    flush(log)
    bases = names(log, ".log")
    between = [offset for offset in names(log, ".snapshot") if offset not in bases]
    assert len(between) <= 3
    assert set(bases) - {0} <= set(names(log, ".snapshot"))

"""What happens to a log while a flush is under way, and when part of one fails."""

from pathlib import Path

from harness.processes.open_files import open_files
from tests.broker.storage.log_files import (
    NOW,
    append,
    batch,
    create,
    filled,
    flush,
    grow,
    log_file,
    names,
    read_on,
    reopen,
)

DAY = 86_400_000


def test_a_segment_sealed_during_a_flush_and_gone_after_it_exposes_nothing(tmp_path: Path) -> None:
    log = create(tmp_path, segment_bytes=300, retention_ms=DAY)
    grow(log, 3, flushed=False)
    ticket = log.begin_flush()
    assert ticket is not None
    append(log, batch(timestamps=[NOW + 5]), NOW + DAY)
    assert names(log, ".log") == [0, 3]
    ticket.run()
    log.complete_flush(ticket)
    assert log.exposed_offset == 3
    assert log.expire(NOW + DAY + 1) == [0]
    assert log.start_offset == 3
    assert log.read(3, 100) is None
    assert log.latest_timestamp() is None, "it is not yet exposed"
    flush(log)
    assert log.latest_timestamp() == (3, NOW + 5, 0)
    assert len(list(read_on(log, 3))) == 1


def test_a_segment_sealed_and_gone_during_a_flush_exposes_nothing(tmp_path: Path) -> None:
    log = create(tmp_path, retention_ms=DAY)
    append(log, batch())
    flush(log)
    log.checkpoint(NOW)
    ticket = log.begin_flush()
    assert ticket is not None
    assert log.expire(NOW + 2 * DAY) == [0]
    ticket.run()
    log.complete_flush(ticket)
    append(log, batch(timestamps=[NOW + 5]))
    assert log.latest_timestamp() is None
    flush(log)
    assert log.latest_timestamp() == (1, NOW + 5, 0)
    assert names(log, ".log") == [1]


def test_an_index_says_nothing_of_a_log_whose_name_may_be_lost(tmp_path: Path) -> None:
    log = create(tmp_path, segment_bytes=2_000, index_interval_bytes=100)
    grow(log, 60, flushed=False)

    def said() -> list[int]:
        sizes = [
            log_file(log, base, suffix).stat().st_size
            for base in names(log, ".log")
            for suffix in (".index", ".timeindex")
        ]
        return [size for size in sizes if size]

    def is_found() -> bool:
        return all(log.read(offset, 1) is not None for offset in range(60))

    assert len(names(log, ".log")) > 2
    assert said() == []
    log.checkpoint(NOW)
    ticket = log.begin_flush()
    assert ticket is not None
    assert said() == [], "power may be lost before the ticket runs"
    ticket.run()
    append(log, batch())
    log.complete_flush(ticket)
    assert len(said()) == 2 * len(names(log, ".log"))
    assert log.recovery_point == 60
    assert is_found()
    assert len(list(read_on(reopen(log), 0))) == 61, "recovery reads the rest again"


def test_an_index_is_written_when_there_is_much_of_it_or_a_checkpoint(tmp_path: Path) -> None:
    """Not with every flush: what a crash costs of it is made again from the log."""
    log = create(tmp_path, index_interval_bytes=1)

    def appended(batches: int) -> int:
        grow(log, batches)
        return log_file(log, 0, ".index").stat().st_size

    first = appended(2)
    assert appended(10) == first
    much = appended(600)
    assert much > 4096
    assert appended(10) == much
    log.checkpoint(NOW)
    assert appended(1) > much + 10 * 8
    appended(20)
    log.abandon()
    again = reopen(log)
    assert all(again.read(offset, 1) is not None for offset in range(643))


def test_a_recovery_point_moves_when_it_is_its_turn_or_much_is_behind_it(tmp_path: Path) -> None:
    log = create(tmp_path)

    def point(*, is_turn: bool) -> int:
        log.checkpoint(NOW, is_turn=is_turn)
        flush(log)
        return log.recovery_point

    append(log, batch())
    assert point(is_turn=False) == 0
    assert point(is_turn=True) == 1
    grow(log, 4, size=1_000_000, flushed=False)
    assert point(is_turn=False) == 1
    append(log, batch(size=1_000_000))
    assert point(is_turn=False) == 6
    append(log, batch(size=1_000_000))
    assert point(is_turn=False) == 6, "it is counted from there"
    append(log, batch(size=3_500_000))
    assert point(is_turn=False) == 8


def test_a_new_log_is_brought_to_disk_with_its_first_batch(tmp_path: Path) -> None:
    """Its segment's name and its directory, also where its broker was killed before that."""
    log = create(tmp_path)
    assert log.begin_flush() is None, "nothing waits for the disk before that"
    log.abandon()
    again = reopen(log)
    synced = []
    for _ in range(2):
        append(again, batch())
        ticket = again.begin_flush()
        assert ticket is not None
        synced.append((ticket.sync_names, ticket.sync_place))
        ticket.run()
        again.complete_flush(ticket)
    assert synced == [(True, True), (False, False)], "once is enough"


def test_without_its_snapshot_a_recovery_point_does_not_move(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(producer=(5, 0, 0)))
    in_the_way = log_file(log, 1, ".snapshot.tmp")
    in_the_way.mkdir()
    log.checkpoint(NOW)
    flush(log)
    assert log.offline == ""
    assert log.exposed_offset == 1, "that is no failure to flush"
    assert log.checkpoint(NOW) == (0, 0)
    in_the_way.rmdir()
    flush(log)
    assert log.checkpoint(NOW) == (1, 0)
    assert names(log, ".snapshot") == [1]


def test_producers_are_known_though_the_first_segments_snapshot_is_not(tmp_path: Path) -> None:
    """What followed an older snapshot is gone with its segments; the next newer one is taken."""
    log = filled(tmp_path, 60, segment_bytes=3000)
    log = reopen(log)
    log.checkpoint(NOW)
    flush(log)
    bases = names(log, ".log")
    log_file(log, bases[1], ".snapshot").unlink()
    log.delete_before(bases[1])
    flush(log)
    log.abandon()
    again = reopen(log, recovery_point=0)
    assert again.start_offset == bases[1]
    assert len(again.producers) == 1
    assert append(again, batch(3, size=20, producer=(5, 0, 177))).duplicate
    assert append(again, batch(3, producer=(5, 0, 180))).base_offset == 180


def test_a_producer_is_rather_forgotten_than_known_wrongly(tmp_path: Path) -> None:
    """Between an old snapshot and the first segment its batches are gone: it begins anew."""
    log = create(tmp_path, segment_bytes=500)
    append(log, batch(3, producer=(5, 0, 0)))
    log.checkpoint(NOW)
    flush(log)
    for number in range(1, 10):
        append(log, batch(3, producer=(5, 0, 3 * number)))
    grow(log, 5, 3, size=200)
    assert names(log, ".snapshot")[0] == 3
    last = names(log, ".log")[-1]
    assert last > 30
    for offset in names(log, ".snapshot")[1:]:
        log_file(log, offset, ".snapshot").write_bytes(b"damaged")
    kept = log_file(log, 3, ".snapshot").read_bytes()
    log.delete_before(last)
    flush(log)
    log_file(log, 3, ".snapshot").write_bytes(kept)
    log.abandon()
    again = reopen(log, recovery_point=0)
    assert again.start_offset == last
    assert append(again, batch(3, producer=(5, 0, 30))).duplicate is False


def test_files_of_removed_segments_are_closed(tmp_path: Path) -> None:
    log = create(tmp_path, segment_bytes=500)
    grow(log, 30, size=100)
    assert log.read(0, 200) is not None
    assert log.read(4, 200) is not None
    log.delete_before(20)
    flush(log)
    held = open_files().values()
    assert not [path for path in held if str(log.directory) in str(path) and "deleted" in path.name]


def test_a_crash_before_its_flush_leaves_a_deletion_to_be_finished(tmp_path: Path) -> None:
    log = filled(tmp_path, 60, segment_bytes=3000)
    log = reopen(log)
    bases = names(log, ".log")
    log.delete_before(bases[2])
    log.abandon()
    assert names(log, ".log") == bases
    again = reopen(log, recovery_point=0)
    assert again.start_offset == bases[2]
    assert again.expire(0) == bases[:2]
    flush(again)
    assert names(log, ".log") == bases[2:]

"""What a log makes of a directory that a crash, a bad disk or a person left behind."""

import logging
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.storage.config import LogConfig
from broker.storage.errors import CorruptLog, ForeignDataDirectory
from broker.storage.log import Log
from tests.broker.storage.log_files import (
    NOW,
    TOPIC_ID,
    append,
    batch,
    checkpoint,
    create,
    filled,
    flip,
    flush,
    forget_snapshots,
    grow,
    log_file,
    names,
    offsets,
    overwrite,
    positions,
    read_on,
    reopen,
)
from wire.record_batches.batch import CRC_START, HEADER_SIZE


def test_nothing_is_lost_when_a_process_is_killed(tmp_path: Path) -> None:
    log = filled(tmp_path, 200, flushed=False, segment_bytes=5000, index_interval_bytes=300)
    before = log.directory.stat()
    again = reopen(log, recovery_point=0)
    assert before.st_ino == again.directory.stat().st_ino
    assert again.end_offset == again.exposed_offset == again.recovery_point == 600
    assert offsets(again) == list(range(0, 600, 3))
    assert append(again, batch(1, producer=(5, 0, 600))).base_offset == 600
    assert append(again, batch(3, size=20, producer=(5, 0, 594))).duplicate is True


@pytest.mark.not_quick("goes on from a crash at each of very many steps")
def test_a_tail_torn_at_any_byte_is_cut_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Which is said in one line."""
    caplog.set_level(logging.INFO)
    log = filled(tmp_path, 5)
    last, end = positions(log)[-2:]
    original = log_file(log).read_bytes()
    for size in range(last, end):
        log_file(log).write_bytes(original[:size])
        forget_snapshots(log)
        caplog.clear()
        again = reopen(log, recovery_point=0)
        assert again.end_offset == 12
        assert log_file(log).read_bytes() == original[:last]
        torn = [message for message in caplog.messages if "torn tail" in message]
        said = f"truncating torn tail path={log_file(log)} position={last} bytes={size - last} "
        assert torn == [each for each in caplog.messages if each.startswith(said)]
        assert all("next_offset=12" in message for message in torn)
        assert len(caplog.messages) == len(torn) == (size > last)
        assert offsets(again) == [0, 3, 6, 9]
        assert append(again, batch(3, producer=(5, 0, 12))).base_offset == 12
        again.abandon()


@pytest.mark.parametrize(
    "tail",
    [
        bytes(1),
        bytes(HEADER_SIZE),
        bytes(100_000),
        b"\2" * 5000,
        b"\xff" * 5000,
        os.urandom(50_000),
    ],
    ids=["a zero", "a header of zeros", "zeros", "magic bytes", "ones", "garbage"],
)
def test_garbage_behind_the_last_batch_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    log = filled(tmp_path, 5)
    original = log_file(log).read_bytes()
    log_file(log).write_bytes(original + tail)
    again = reopen(log, recovery_point=0)
    assert again.end_offset == 15
    assert log_file(log).read_bytes() == original


@pytest.mark.parametrize("number", [0, 3, 8])
def test_damage_with_valid_batches_behind_it_is_never_cut_off(tmp_path: Path, number: int) -> None:
    log = filled(tmp_path, 10)
    position = positions(log)[number]
    sound = log_file(log).read_bytes()
    for at in (0, 9, 16, CRC_START, HEADER_SIZE + 3):
        log_file(log).write_bytes(sound)
        flip(log_file(log), position + at)
        damaged = log_file(log).read_bytes()
        with pytest.raises(CorruptLog) as error:
            reopen(log, recovery_point=0)
        for part in (str(log_file(log)), f"byte {position}", f"offset {3 * number} "):
            assert part in str(error.value)
        assert log_file(log).read_bytes() == damaged


def test_damage_with_a_flushed_segment_behind_it_is_never_cut_off(tmp_path: Path) -> None:
    log = filled(tmp_path, 60, flushed=True, segment_bytes=3000)
    base = names(log, ".log")[1]
    assert len(names(log, ".log")) > 3
    overwrite(log_file(log, base), positions(log, base)[-2] + 30, b"broken")
    with pytest.raises(CorruptLog, match=f"{base:020d}.log, byte {positions(log, base)[-2]}"):
        reopen(log, recovery_point=0)


def test_what_a_loss_of_power_left_of_rolls_without_a_flush_is_cut_off(tmp_path: Path) -> None:
    """The end of a sealed segment is lost, a later one is there: nobody was shown any of it."""
    log = filled(tmp_path, 60, flushed=False, segment_bytes=3000)
    first, second, third, *_ = names(log, ".log")
    os.truncate(log_file(log, second), positions(log, second)[-2] + 10)
    again = reopen(log)
    assert second < again.end_offset < third
    assert names(log, ".log") == [first, second]
    append(again, batch(3, producer=(5, 0, again.end_offset)))
    flush(again)
    assert offsets(again) == list(range(0, again.end_offset, 3))


def test_a_segment_lost_whole_between_unflushed_ones_ends_the_log(tmp_path: Path) -> None:
    log = filled(tmp_path, 60, flushed=False, segment_bytes=3000)
    first, second, *_ = names(log, ".log")
    log_file(log, second).write_bytes(b"")
    assert reopen(log).end_offset == second
    assert names(log, ".log") == [first, second]


@pytest.mark.parametrize("torn", [True, False])
def test_an_end_that_was_lost_before_an_empty_segment_is_cut_off(
    tmp_path: Path, torn: bool
) -> None:
    """In the middle of a batch, or the whole of it."""
    log = filled(tmp_path, 20, flushed=False, segment_bytes=3000)
    first, second, *_ = names(log, ".log")
    for base in names(log, ".log")[1:]:
        log_file(log, base).write_bytes(b"")
    os.truncate(log_file(log, first), positions(log)[-1] - 10 if torn else positions(log)[-2])
    again = reopen(log)
    assert again.end_offset == second - 3
    assert names(log, ".log") == names(log, ".index") == [0]
    append(again, batch(3, producer=(5, 0, second - 3)))
    flush(again)
    assert offsets(again) == list(range(0, second, 3))


def test_what_had_reached_the_disk_is_never_cut_off(tmp_path: Path) -> None:
    log = create(tmp_path)
    grow(log, 10, 3, producer=5, flushed=False)
    recovery_point, _ = checkpoint(log)
    assert recovery_point == 30
    log.abandon()
    original = log_file(log).read_bytes()
    for size in (positions(log)[-1] - 1, positions(log)[-2], 10, 0):
        log_file(log).write_bytes(original[:size])
        for claimed in (30, 0):
            with pytest.raises(CorruptLog):
                reopen(log, recovery_point=claimed)
        with pytest.raises(CorruptLog):
            reopen(log, clean=True)
        assert log_file(log).stat().st_size == size
    log_file(log).unlink()
    with pytest.raises(CorruptLog):
        reopen(log)
    assert not log_file(log).exists()


def test_a_recovery_point_of_an_earlier_partition_is_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(tmp_path, 5, flushed=False)
    os.truncate(log_file(log), positions(log)[-1] - 1)
    again = Log.open(
        log.directory, log.config, recovery_point=5000, start_offset=4000, clean=False, now_ms=NOW
    )
    assert (again.start_offset, again.end_offset) == (0, 12)
    assert "recovery_point=5000 proven=0" in caplog.text
    assert "checkpoint=4000 start_offset=0" in caplog.text


def test_below_the_recovery_point_nothing_is_read_again(tmp_path: Path) -> None:
    """Damage there is found by whoever reads it: recovery is bounded."""
    log = create(tmp_path)
    grow(log, 10, 3, flushed=False)
    checkpoint(log)
    append(log, batch(3))
    log.abandon()
    flip(log_file(log), positions(log)[5] + 80)
    assert reopen(log, recovery_point=30).end_offset == 33
    with pytest.raises(CorruptLog):
        reopen(log, recovery_point=0)


def test_a_missing_segment_in_the_middle_is_corruption(tmp_path: Path) -> None:
    log = filled(tmp_path, 60, segment_bytes=3000)
    _, second, third, *_ = names(log, ".log")
    aside = tmp_path / "aside"
    for suffix in (".log", ".index", ".timeindex"):
        log_file(log, second, suffix).rename(aside)
    for clean in (True, False):
        with pytest.raises(CorruptLog, match=f"offsets {second} to {third - 1} are missing"):
            reopen(log, clean=clean)
    with pytest.raises(CorruptLog, match="are missing"):
        reopen(log, recovery_point=0)


def test_a_log_file_that_left_its_index_behind_is_corruption(tmp_path: Path) -> None:
    log = filled(tmp_path, 60, segment_bytes=3000, index_interval_bytes=100)
    last = names(log, ".log")[-1]
    reopen(log).close()
    log_file(log, last).rename(tmp_path / "aside")
    with pytest.raises(CorruptLog, match=f"{last:020d}.log is missing"):
        reopen(log)


def test_indexes_of_a_segment_that_was_being_removed_are_removed(tmp_path: Path) -> None:
    log = filled(tmp_path, 60, segment_bytes=3000, index_interval_bytes=100)
    log_file(log, 0).unlink()
    again = reopen(log)
    assert again.start_offset == names(log, ".log")[0] > 0
    assert names(log, ".index") == names(log, ".timeindex") == names(log, ".log")


def test_leftovers_go_and_strangers_stay(tmp_path: Path) -> None:
    log = filled(tmp_path)
    gone = [
        f"{0:020d}.log.cleaned",
        f"{0:020d}.index.cleaned",
        f"{3:020d}.index.swap",
        f"{0:020d}.log.deleted",
        f"{60:020d}.snapshot.tmp",
        "leader-epoch-checkpoint.tmp",
    ]
    for name in [*gone, "notes.txt"]:
        (log.directory / name).write_bytes(b"something")
    assert reopen(log).end_offset == 60
    left = {path.name for path in log.directory.iterdir()}
    assert not left & set(gone)
    assert "notes.txt" in left


def test_an_empty_directory_is_a_new_log(tmp_path: Path) -> None:
    """As a crash leaves it between making the directory and its first segment."""
    log = create(tmp_path)
    log.abandon()
    for suffix in (".log", ".index", ".timeindex"):
        log_file(log, 0, suffix).unlink()
    again = reopen(log)
    assert (again.start_offset, again.end_offset) == (0, 0)
    assert append(again, batch()).base_offset == 0
    log_file(log, 0, ".index").unlink()
    again.abandon()
    assert reopen(log).end_offset == 1


def test_a_directory_without_a_topic_id_is_nobodys(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert reopen(log).topic_id == TOPIC_ID
    (log.directory / "partition.metadata").write_text("version: 0\ntopic_id: nonsense")
    with pytest.raises(ForeignDataDirectory):
        reopen(log)
    (log.directory / "partition.metadata").unlink()
    with pytest.raises(ForeignDataDirectory):
        reopen(log)


def test_producers_are_known_from_the_newest_good_snapshot(tmp_path: Path) -> None:
    log = create(tmp_path, segment_bytes=3000)
    for number in range(60):
        append(log, batch(3, producer=(5, 0, 3 * number)))
        append(log, batch(1, producer=(100 + number, 0, 0)))
        if number % 10 == 0:
            checkpoint(log)
    checkpoint(log)
    append(log, batch(3, producer=(5, 0, 180)))
    log.abandon()
    snapshots = sorted(log.directory.glob("*.snapshot"))
    assert len(snapshots) > 5
    for path in [*reversed(snapshots), None]:
        copied = tmp_path / "copy"
        shutil.copytree(log.directory, copied / "topic-0")
        again = Log.open(
            copied / "topic-0",
            log.config,
            recovery_point=log.recovery_point,
            start_offset=0,
            clean=False,
            now_ms=NOW,
        )
        assert len(again.producers) == 61
        assert append(again, batch(3, producer=(5, 0, 180))).duplicate is True
        assert append(again, batch(3, producer=(5, 0, 183))).duplicate is False
        shutil.rmtree(copied)
        if path is not None:
            overwrite(path, path.stat().st_size // 2, b"broken")


def test_producers_expire_with_time(tmp_path: Path) -> None:
    log = create(tmp_path, producer_expiration_ms=60_000)
    now = log_file(log).stat().st_mtime_ns // 1_000_000
    append(log, batch(producer=(1, 0, 0)), now - 61_000)
    append(log, batch(producer=(2, 0, 0)), now)
    assert len(log.producers) == 2
    log.checkpoint(now)
    assert len(log.producers) == 1
    log.close()
    assert len(reopen(log, clean=True, now_ms=now + 1000).producers) == 1
    assert len(reopen(log, clean=True, now_ms=now + 61_000).producers) == 0


def test_leader_epochs_follow_the_batches(tmp_path: Path) -> None:
    log = create(tmp_path)
    for epoch in (0, 0, 2, 2, 5):
        append(log, batch(), leader_epoch=epoch)
    flush(log)
    log.abandon()
    path = log.directory / "leader-epoch-checkpoint"
    for content in (path.read_bytes(), b"", b"garbage", b"0\n1\n0 0\n", b"0\n2\n0 0\n9 5\n"):
        path.write_bytes(content)
        assert reopen(log, recovery_point=0).epochs.entries == [(0, 0), (2, 2), (5, 4)]
    path.unlink()
    assert reopen(log, recovery_point=0).epochs.entries == [(0, 0), (2, 2), (5, 4)]
    os.truncate(log_file(log), log_file(log).stat().st_size - 1)
    forget_snapshots(log)
    assert reopen(log, recovery_point=0).epochs.entries == [(0, 0), (2, 2)]


def test_a_clean_stop_is_believed_only_where_the_log_confirms_it(tmp_path: Path) -> None:
    log = filled(tmp_path, 5, flushed=False)
    os.truncate(log_file(log), positions(log)[-1] - 1)
    again = reopen(log, clean=True)
    assert again.end_offset == 12
    again.close()
    with log_file(log).open("ab") as file:
        file.write(b"written by somebody else")
    assert reopen(log, clean=True).end_offset == 12


def test_deleted_records_stay_deleted(tmp_path: Path) -> None:
    log = create(tmp_path, segment_bytes=3000)
    grow(log, 60, 3)
    log.delete_before(100)
    log.delete_before(101)
    flush(log)
    log.abandon()
    assert names(log, ".start") == [101]
    again = Log.open(
        log.directory, log.config, recovery_point=0, start_offset=0, clean=False, now_ms=NOW
    )
    assert (again.start_offset, again.end_offset) == (101, 180)
    again.delete_before(180)
    flush(again)
    assert names(log, ".log") == [180]
    assert reopen(again, recovery_point=0).start_offset == 180


def test_a_file_that_cannot_be_read_is_an_error_of_this_log(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log_file(log).unlink()
    log_file(log).mkdir()
    with pytest.raises(Exception, match="topic-0") as error:
        reopen(log)
    assert error.type.__name__ in ("BytesUnreadable", "CorruptLog")


# Indexes that are missing, cut short, overwritten or too long: never trusted over the log


def _shifted(path: Path) -> None:
    """Every offset is a little lower than that of the batch it stands for."""
    content = bytearray(path.read_bytes())
    first, step = (0, 8) if path.suffix == ".index" else (8, 12)
    for at in range(first, len(content), step):
        content[at : at + 4] = max(int.from_bytes(content[at : at + 4]) - 9, 0).to_bytes(4)
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "shifted": _shifted,
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "odd": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "shorter": lambda path: path.write_bytes(path.read_bytes()[: 24 * 2]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "garbage": lambda path: path.write_bytes(os.urandom(path.stat().st_size)),
    "too long": lambda path: path.write_bytes(path.read_bytes() + b"\x7f" * 24),
    # What a search in it comes to is a batch that is there, and not the one that is looked for.
    "misleading": lambda path: path.write_bytes(random.Random(151).randbytes(path.stat().st_size)),
}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of three segments; the recovery point was at 300 once."""
    log = create(tmp_path_factory.mktemp("log"), segment_bytes=15_000, index_interval_bytes=200)
    for number in range(300):
        append(log, batch(3, timestamps=[NOW + number] * 3))
        if number == 99:
            checkpoint(log)
    log.close()
    assert len(names(log, ".log")) == 3
    return log.directory


def opened(directory: Path, recovery_point: int, *, clean: bool = False) -> Log:
    config = LogConfig(segment_bytes=15_000, index_interval_bytes=200)
    return Log.open(
        directory, config, recovery_point=recovery_point, start_offset=0, clean=clean, now_ms=NOW
    )


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_is_never_trusted_over_the_log(
    indexed: Path, tmp_path: Path, suffix: str, damage: str
) -> None:
    for clean in (True, False):
        directory = shutil.copytree(indexed, tmp_path / str(clean))
        for path in directory.glob(f"*{suffix}"):
            DAMAGES[damage](path)
        again = opened(directory, 900, clean=clean)
        assert again.end_offset == 900
        for offset in range(0, 900, 7):
            header, _ = next(read_on(again, offset, 1000))
            assert header.base_offset == offset // 3 * 3
        assert offsets(again) == list(range(0, 900, 3))
        latest = again.latest_timestamp()
        assert latest is not None
        assert latest.offset == 897
        append(again, batch(3))
        again.close()


@pytest.mark.parametrize("damage", [each for each in DAMAGES if each != "misleading"])
def test_indexes_behind_the_recovery_point_are_made_again(
    indexed: Path, tmp_path: Path, damage: str
) -> None:
    directory = shutil.copytree(indexed, tmp_path / "topic-0")
    expected = {path: path.read_bytes() for path in directory.iterdir() if "index" in path.name}
    for path in expected:
        DAMAGES[damage](path)
    opened(directory, 300).close()
    for path, content in expected.items():
        assert path.read_bytes() == content


def test_an_index_cannot_be_made_from_a_log_that_went_bad(tmp_path: Path) -> None:
    log = create(tmp_path, index_interval_bytes=200)
    grow(log, 100, 3, flushed=False)
    checkpoint(log)
    size = log.size
    DAMAGES["garbage"](log_file(log, 0, ".index"))
    overwrite(log_file(log), positions(log)[60], b"damage of a header")
    for _ in range(2):
        with pytest.raises(CorruptLog, match=f"byte {positions(log)[60]} "):
            next(read_on(log, 270))
    assert log.offline == ""
    assert log.size == size
    assert append(log, batch(3)).base_offset == 300
    assert log_file(log).stat().st_size == log.size > size


def test_an_index_that_goes_bad_while_it_is_used_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = create(tmp_path, segment_bytes=15_000, index_interval_bytes=200)
    grow(log, 300, 3)
    for base in names(log, ".log"):
        DAMAGES["garbage"](log_file(log, base, ".index"))
    assert offsets(log) == list(range(0, 900, 3))
    assert "rebuilding index" in caplog.text
    caplog.clear()
    assert [next(read_on(log, offset))[0].base_offset for offset in range(0, 900, 10)]
    assert "rebuilding index" not in caplog.text
    os.truncate(log_file(log, 0, ".index"), 0)
    assert next(read_on(log, 100))[0].base_offset == 99

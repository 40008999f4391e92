"""An operator gives up what is behind damage, and what is in front of it is a log again."""

from pathlib import Path

import pytest

from broker.storage.errors import CorruptLog
from broker.storage.log import Log
from broker.storage.recovery.repair import GivenUp, truncate_at_corruption
from tests.broker.storage.log_files import (
    append,
    batch,
    checkpoint,
    create,
    flip,
    flush,
    grow,
    log_file,
    names,
    read_on,
    reopen,
)


def closed(directory: Path) -> Log:
    """A log of 60 batches of 3 records in several segments."""
    log = create(directory, segment_bytes=2000)
    for number in range(60):
        append(log, batch(3, producer=(5, 0, 3 * number)), leader_epoch=number // 20)
    log.close()
    assert len(names(log, ".log")) > 3
    return log


def test_a_sound_log_is_left_alone(tmp_path: Path) -> None:
    log = closed(tmp_path)
    before = {path.name: path.read_bytes() for path in log.directory.iterdir()}
    assert truncate_at_corruption(log.directory, log.config) is None
    assert {path.name: path.read_bytes() for path in log.directory.iterdir()} == before


def test_what_is_behind_damage_is_given_up(tmp_path: Path) -> None:
    log = closed(tmp_path)
    bases = names(log, ".log")
    path = log_file(log, bases[1])
    content = path.read_bytes()
    size = 12 + int.from_bytes(content[8:12])
    flip(path, size + 100)
    behind = sum(log_file(log, base).stat().st_size for base in bases[2:])
    with pytest.raises(CorruptLog):
        reopen(log, recovery_point=0)
    lost = truncate_at_corruption(log.directory, log.config)
    assert lost == GivenUp(
        path=path,
        position=size,
        reason="the CRC does not match the bytes",
        first_offset=bases[1] + 3,
        lost_bytes=len(content) - size + behind,
        lost_segments=len(bases) - 2,
    )
    again = reopen(log)
    assert again.end_offset == bases[1] + 3
    offsets = [header.base_offset for header, _ in read_on(again, 0)]
    assert offsets == list(range(0, bases[1] + 3, 3))
    assert again.epochs.latest == (bases[1]) // 60
    assert append(again, batch(3, producer=(5, 0, bases[1] + 3))).base_offset == bases[1] + 3
    again.close()
    assert truncate_at_corruption(log.directory, log.config) is None


@pytest.mark.parametrize("number", [2, -1])
def test_a_missing_segment_in_the_middle_or_at_the_end(tmp_path: Path, number: int) -> None:
    log = closed(tmp_path)
    missing = names(log, ".log")[number]
    log_file(log, missing).unlink()
    with pytest.raises(CorruptLog):
        reopen(log)
    lost = truncate_at_corruption(log.directory, log.config)
    assert lost is not None
    assert lost.first_offset == missing
    assert number == 2 or "up to offset 180" in lost.reason
    assert reopen(log).end_offset == missing


def test_records_that_were_deleted_do_not_come_back(tmp_path: Path) -> None:
    log = create(tmp_path)
    grow(log, 10, 3, flushed=False)
    checkpoint(log)
    log.delete_before(20)
    flush(log)
    log.abandon()
    with log_file(log).open("r+b") as file:
        file.truncate(log_file(log).stat().st_size // 2)
    with pytest.raises(CorruptLog):
        reopen(log)
    lost = truncate_at_corruption(log.directory, log.config)
    assert lost is not None
    again = reopen(log)
    assert again.start_offset == again.end_offset == lost.first_offset < 20

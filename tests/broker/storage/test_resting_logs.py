"""A log at rest has no file open, and goes on where it was: unless somebody else was there."""

import errno
import gc
from pathlib import Path

import pytest

from broker.storage.errors import LogOffline
from broker.storage.log import Log
from broker.storage.segments.files import OPEN, is_out_of_files
from tests.broker.storage.log_files import (
    NOW,
    append,
    batch,
    checkpoint,
    content,
    create,
    flush,
    log_file,
    names,
    offsets,
    reopen,
)


def rested(directory: Path, **config: object) -> Log:
    log = create(directory, index_interval_bytes=0, **config)
    for number in range(3):
        append(log, batch(3, timestamps=[NOW + number] * 3))
    flush(log)
    assert log.rest()
    return log


def test_nothing_is_open_and_all_goes_on(tmp_path: Path) -> None:
    gc.collect()
    before = len(OPEN)
    log = rested(tmp_path)
    assert len(OPEN) == before
    append(log, batch(3, timestamps=[NOW + 3] * 3))
    flush(log)
    assert offsets(log) == [0, 3, 6, 9]
    found = log.offset_for_timestamp(NOW + 2)
    assert found is not None
    assert found.offset == 6
    assert log.rest()
    assert len(OPEN) == before
    found = log.latest_timestamp()
    assert found is not None
    assert found.offset == 9


def test_what_is_not_on_disk_keeps_its_files(tmp_path: Path) -> None:
    log = rested(tmp_path)
    append(log, batch())
    assert not log.rest()
    ticket = log.begin_flush()
    assert ticket is not None
    ticket.run()
    assert not log.rest(), "a flush is under way"
    log.complete_flush(ticket)
    assert log.rest()


def test_segments_that_were_read_rest_too(tmp_path: Path) -> None:
    gc.collect()
    before = len(OPEN)
    log = rested(tmp_path, segment_bytes=100)
    assert len(names(log, ".log")) > 1
    assert offsets(log) == [0, 3, 6]
    assert len(OPEN) > before
    assert log.rest()
    assert len(OPEN) == before


def test_a_slice_keeps_its_file(tmp_path: Path) -> None:
    log = rested(tmp_path)
    piece = log.read(0, 10_000)
    assert piece is not None
    assert log.rest()
    assert len(content(piece)) == piece.length


def test_what_was_indexed_before_a_rest_is_on_disk_after_a_checkpoint(tmp_path: Path) -> None:
    log = rested(tmp_path)
    assert checkpoint(log) == (9, 0)
    assert log.rest()
    before = log_file(log, suffix=".index").read_bytes()
    assert len(before) == 2 * 8
    again = reopen(log)
    assert offsets(again) == [0, 3, 6]
    assert log_file(log, suffix=".index").read_bytes() == before


@pytest.mark.parametrize("spoil", ["written to", "cut", "replaced"])
def test_nothing_is_appended_to_a_file_that_somebody_changed(tmp_path: Path, spoil: str) -> None:
    log = rested(tmp_path)
    path = log_file(log)
    whole = path.read_bytes()
    if spoil == "replaced":
        path.rename(tmp_path / "elsewhere")
        path.write_bytes(whole)
    else:
        path.write_bytes(whole + b"more" if spoil == "written to" else whole[:-1])
    with pytest.raises(LogOffline, match="was replaced or modified by another process"):
        append(log, batch())
    assert log.offline


def test_an_index_that_was_removed_meanwhile_is_made_again(tmp_path: Path) -> None:
    log = rested(tmp_path)
    log_file(log, suffix=".index").unlink()
    log_file(log, suffix=".timeindex").unlink()
    append(log, batch(3, timestamps=[NOW + 3] * 3))
    flush(log)
    assert offsets(log) == [0, 3, 6, 9]
    for number in range(1, 4):
        found = log.offset_for_timestamp(NOW + number)
        assert found is not None
        assert found.offset == 3 * number


def test_files_that_have_run_out_are_known_behind_other_errors() -> None:
    offline = LogOffline("offline")
    offline.__cause__ = OSError(errno.EMFILE, "Too many open files")
    assert is_out_of_files(offline)
    assert not is_out_of_files(OSError(errno.ENOSPC, "No space left on device"))

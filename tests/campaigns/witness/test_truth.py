"""What the witness believes is what was done: a line is in its file at its bytes, and a record in
the log as long as that has it."""

import os
from pathlib import Path

import pytest

from tests.campaigns.disks import SmallDisk
from tests.campaigns.witness.application import Application
from tests.campaigns.witness.truth import LAST_LINE, File, Line, Truth


def in_file(file: File, path: Path) -> list[str]:
    """What is at the bytes of each line."""
    content = path.read_bytes()
    assert len(content) == file.size
    return [content[line.start : line.end].decode() for line in file.lines]


def as_written(line: Line) -> str:
    return line.text + ("" if line.unfinished else "\n")


def test_a_line_in_two_pieces_is_one(tmp_path: Path) -> None:
    truth = Truth("web-1", "t")
    application = Application(tmp_path, truth)
    application.write("a", 2)
    application.write_part("a")
    application.write_part("a")
    (file,) = truth.files
    assert [line.unfinished for line in file.lines] == [False, False, True]
    assert in_file(file, application.path("a")) == [as_written(line) for line in file.lines]
    begun = file.lines[2].begun
    application.write("a", 2)
    assert len(file.lines) == 5
    assert not any(line.unfinished for line in file.lines)
    assert in_file(file, application.path("a")) == [as_written(line) for line in file.lines]
    assert file.lines[2].begun == begun <= file.lines[2].written


def test_a_piece_at_the_end_of_a_rotated_file_stays_one(tmp_path: Path) -> None:
    truth = Truth("web-1", "t")
    application = Application(tmp_path, truth)
    application.write_part("a")
    application.rename("a")
    application.write("a", 1)
    former, latter = truth.files
    assert truth.divide({former.lines[0].text}) == []
    assert [line.unfinished for line in former.lines] == [True]
    assert [line.unfinished for line in latter.lines] == [False]
    assert in_file(latter, application.path("a")) == [as_written(line) for line in latter.lines]


def test_a_line_is_divided_where_a_piece_of_it_was_taken_for_one(tmp_path: Path) -> None:
    truth = Truth("web-1", "t")
    application = Application(tmp_path, truth)
    application.write_part("a")
    application.write("a", 1)
    (file,) = truth.files
    whole, after = file.lines
    assert truth.divide({whole.text, after.text}) == []
    assert file.lines == [whole, after]
    assert truth.divide({whole.beginning}) == [whole]
    assert [line.text for line in file.lines] == [whole.beginning, whole.rest, after.text]
    assert [line.start for line in file.lines[1:]] == [line.end for line in file.lines[:2]]
    assert truth.divide({whole.beginning}) == []
    file.lines = [whole]
    whole.written = whole.begun + LAST_LINE * 1000
    assert truth.divide({whole.rest}) == []
    assert len(file.lines) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts disks")
def test_a_small_disk_is_full_until_it_is_freed(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "data", "1m")
    assert not disk.fill()
    disk.mount()
    try:
        assert disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "data" / "more").write_bytes(bytes(8192))
        assert disk.free()
        (tmp_path / "data" / "more").write_bytes(bytes(8192))
    finally:
        disk.unmount()
    assert list((tmp_path / "data").iterdir()) == []

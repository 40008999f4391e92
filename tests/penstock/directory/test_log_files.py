"""The programs' log files, cut while they are written."""

import os
from pathlib import Path

import pytest

from penstock.directory.log_files import cut, last_lines, open_log, size


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "broker.log"


def test_a_long_file_is_cut_under_its_writers_hands(path: Path) -> None:
    descriptor = open_log(path)
    try:
        os.write(descriptor, b"a" * 99 + b"\n")
        assert not cut(path, longest=100)
        os.write(descriptor, b"b\n")
        assert cut(path, longest=100)
        os.write(descriptor, b"after\n")
        assert path.read_bytes() == b"after\n"
        assert path.with_name("broker.log.1").read_bytes() == b"a" * 99 + b"\nb\n"
        os.write(descriptor, b"c" * 100)
        assert cut(path, longest=100)
    finally:
        os.close(descriptor)
    assert path.with_name("broker.log.1").read_bytes() == b"after\n" + b"c" * 100
    assert sorted(each.name for each in path.parent.iterdir()) == ["broker.log", "broker.log.1"]


def test_it_is_cut_even_if_nothing_can_be_kept(path: Path) -> None:
    os.close(open_log(path))
    path.write_bytes(b"a" * 101)
    path.with_name("broker.log.1").mkdir()
    assert cut(path, longest=100)
    assert size(path) == 0


def test_links_are_not_written_through(path: Path, tmp_path: Path) -> None:
    precious, kept = tmp_path / "precious", path.with_name("broker.log.1")
    precious.write_text("content")
    os.close(open_log(path))
    kept.symlink_to(precious)
    path.write_bytes(b"a" * 101)
    assert cut(path, longest=100)
    assert (precious.read_text(), kept.is_symlink()) == ("content", False)
    path.unlink()
    path.symlink_to(precious)
    with pytest.raises(OSError, match="symbolic"):
        open_log(path)


def test_a_file_that_is_not_there_is_not_long(path: Path) -> None:
    assert (size(path), cut(path), last_lines(path, 0, 5)) == (0, False, ())


def test_the_last_lines(path: Path) -> None:
    os.close(open_log(path))
    path.write_bytes(b"old\n" + b"x" * 20_000 + b"\n\n  \nfirst \x1b[31m\nl\xe4st")
    assert last_lines(path, 4, 2) == ("first \\x1b[31m", "l\N{REPLACEMENT CHARACTER}st")
    long, *rest = last_lines(path, 4, 5)
    assert (len(long), len(rest)) == (500, 2)
    assert last_lines(path, size(path), 5) == ()
    assert last_lines(path, size(path) + 1, 1) == ("l\N{REPLACEMENT CHARACTER}st",), "it was cut"

"""Files are replaced whole, with their mode, and nothing is left beside them."""

import os
import resource
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ground.files.durable_files import replace_file, replacing, sync_directory, sync_file


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def test_new_content_takes_the_place_of_the_old(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_file(path, b"first, longer")
    held = path.open("rb")
    replace_file(path, b"second")
    assert path.read_bytes() == b"second"
    with held:
        assert held.read() == b"first, longer"
    assert names(tmp_path) == ["file"]


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_file(path, b"content")
    (tmp_path / "file.tmp").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(path, b"other")
    assert path.read_bytes() == b"content"


def test_what_is_broken_off_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with pytest.raises(KeyboardInterrupt), replacing(path) as file:
        file.write(b"half")
        assert names(tmp_path) == ["file", "file.tmp"]
        raise KeyboardInterrupt
    assert names(tmp_path) == ["file"]
    assert path.read_bytes() == b"content"


def test_a_name_that_cannot_be_given_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file" / "inside").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "file", b"content")
    assert names(tmp_path) == ["file"]


def test_what_a_crash_left_is_not_in_the_way(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"content")
    (tmp_path / "file.tmp").symlink_to(precious)
    replace_file(tmp_path / "file", b"new")
    assert precious.read_bytes() == b"content"
    assert (tmp_path / "file").read_bytes() == b"new"
    assert names(tmp_path) == ["file", "precious"]


def test_each_may_have_a_temporary_name_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with (
        replacing(path, temporary=tmp_path / ".1") as first,
        replacing(path, temporary=tmp_path / ".2") as second,
    ):
        first.write(b"first")
        second.write(b"second")
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["file"]


def test_a_mode_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with umask(0o027):
        replace_file(path, b"new")
        assert mode_of(path) == 0o640
        path.chmod(0o606)
        replace_file(path, b"again")
    assert mode_of(path) == 0o606


def test_a_mode_is_given(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"for everybody")
    path.chmod(0o644)
    with umask(0o077), replacing(path, mode=0o600) as file:
        file.write(b"secret")
        assert mode_of(tmp_path / "file.tmp") == 0o600
    assert mode_of(path) == 0o600
    with umask(0o077):
        replace_file(path, b"for everybody", mode=0o644)
    assert mode_of(path) == 0o644


def test_what_is_owed_to_the_disk_waits_for_a_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_one = os.open(os.devnull, os.O_RDONLY)
    os.close(next_one)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, limits[1]))
    again = threading.Timer(0.2, resource.setrlimit, (resource.RLIMIT_NOFILE, limits))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.open(path, os.O_RDONLY)
        again.start()
        sync_file(path)
        sync_directory(tmp_path)
    finally:
        again.join()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_what_is_missing_is_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sync_file(tmp_path / "file")
    replace_file(tmp_path / "file", b"")
    with pytest.raises(NotADirectoryError):
        sync_directory(tmp_path / "file")

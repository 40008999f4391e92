"""Many files at once: each has its own fault, and the others none for it."""

import errno
import os
from pathlib import Path

import pytest

from broker.storage.segments.files import OpenFile
from broker.storage.segments.many_files import NATIVE, sync_all, write_all

ways = pytest.mark.parametrize(
    "native",
    [pytest.param(True, marks=pytest.mark.skipif(not NATIVE, reason="not compiled")), False],
)


def opened(path: Path, content: bytes = b"") -> OpenFile:
    path.write_bytes(content)
    return OpenFile(path, os.O_RDWR)


@ways
def test_each_file_has_its_own_fault(tmp_path: Path, native: bool) -> None:
    sound, removed, replaced, last = (
        opened(tmp_path / name) for name in ("sound", "removed", "replaced", "l\udce4st")
    )
    Path(removed.path).unlink()
    other = tmp_path / "other"
    other.touch()
    other.rename(replaced.path)
    pipe = OpenFile(tmp_path / "sound")
    read_end, write_end = os.pipe()
    os.dup2(write_end, pipe.fd)
    faults = sync_all([sound, removed, replaced, pipe, last], native=native)
    os.close(read_end)
    os.close(write_end)
    assert [fault and fault.errno for fault in faults] == [
        None, errno.ENOENT, errno.ENOENT, errno.EINVAL, None,
    ]  # fmt: skip
    assert "removed or replaced" in str(faults[1])
    assert "removed or replaced" in str(faults[2])
    assert "Invalid argument" in str(faults[3])
    assert sync_all([], native=native) == []


@ways
def test_each_piece_goes_to_its_place(tmp_path: Path, native: bool) -> None:
    first, second = opened(tmp_path / "first", b"........"), opened(tmp_path / "second")
    unwritable = OpenFile(tmp_path / "first")
    faults = write_all(
        [
            (first.fd, b"ab", 2),
            (unwritable.fd, b"x", 0),
            (second.fd, b"c\0d", 1),
            (first.fd, b"", 0),
        ],
        native=native,
    )
    assert [fault and fault.errno for fault in faults] == [None, errno.EBADF, None, None]
    assert (tmp_path / "first").read_bytes() == b"..ab...."
    assert (tmp_path / "second").read_bytes() == b"\0c\0d"

"""Folders that cannot be written to, for real, until they can be again."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from broker.replicas.write_check import WriteCheck
from harness.processes.waiting import wait_until
from tests.system.small_disk import mounted_disk, no_inodes, read_only

Fault = Callable[[Path], AbstractContextManager[None]]


@pytest.mark.parametrize(
    ("fault", "folder", "reason"),
    [
        (read_only, "", "Read-only file system"),
        (read_only, "a-0", "Read-only file system"),
        (no_inodes, "", "No space left on device: no free inodes (`df -i` shows them)"),
    ],
)
def test_a_folder_that_cannot_be_written_to(
    tmp_path: Path, fault: Fault, folder: str, reason: str
) -> None:
    with mounted_disk(tmp_path, 1, inodes=20) as disk, running(disk) as check:
        with fault(disk / folder):
            wait_until(lambda: check.unwritable, what="it is noticed")
            (unwritable,) = check.unwritable
            assert (Path(unwritable.folder), unwritable.reason) == (disk / folder, reason)
            words = f"cannot write to {unwritable.folder}: {reason}, since 2"
            assert check.why_not_ready.startswith(words)
        wait_until(lambda: not check.unwritable, what="it is over")
    assert check.why_not_ready == ""


@contextmanager
def running(data_dir: Path) -> Iterator[WriteCheck]:
    """It has looked once."""
    for name in ("a-0", "b-0"):
        (data_dir / name).mkdir()
    looked = threading.Event()

    def others() -> Iterator[Path]:
        yield from (data_dir / name for name in ("gone-0", "a-0", "b-0"))
        looked.set()

    check = WriteCheck(data_dir, others, every_seconds=0.05)
    check.start()
    try:
        assert looked.wait(60)
        assert not check.unwritable
        yield check
    finally:
        check.stop()
    assert not list(data_dir.glob("**/.write-check"))

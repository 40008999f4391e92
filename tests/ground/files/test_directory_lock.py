"""One process has a directory, and another one has it as soon as the first is gone."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ground.files.directory_lock import DirectoryLock, InUse

HOLDER = """
import sys, time
from pathlib import Path
from ground.files.directory_lock import DirectoryLock
with DirectoryLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(1000)
"""


def test_one_has_it_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with DirectoryLock(path) as lock:
        assert not lock.closed
        with pytest.raises(InUse):
            DirectoryLock(path)
    assert lock.closed
    lock.close()
    DirectoryLock(path).close()


def test_whoever_is_killed_has_it_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(InUse):
                DirectoryLock(path)
        finally:
            holder.kill()
        holder.wait()
        DirectoryLock(path).close()


def test_a_child_that_it_is_passed_to_has_it_too(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = DirectoryLock(path)
    with subprocess.Popen(["sleep", "1000"], pass_fds=[lock.fileno()]) as child:
        lock.close()
        try:
            with pytest.raises(InUse):
                DirectoryLock(path)
        finally:
            child.kill()
    DirectoryLock(path).close()


def test_others_see_what_its_holder_has_written(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with DirectoryLock(path) as lock:
        os.pwrite(lock.fileno(), b"process 17" + b"." * 1000, 0)
        with pytest.raises(InUse) as refused:
            DirectoryLock(path)
    assert refused.value.content.startswith(b"process 17.")
    assert len(refused.value.content) == 64
    assert path.read_bytes().startswith(b"process 17")


def test_whoever_has_patience_waits(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = DirectoryLock(path)
    began = time.monotonic()
    with pytest.raises(InUse):
        DirectoryLock(path, patience_s=0.1)
    assert time.monotonic() - began >= 0.1
    end = threading.Timer(0.2, first.close)
    end.start()
    DirectoryLock(path, patience_s=60).close()
    end.join()


def test_a_lock_that_is_gone_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with DirectoryLock(path) as lock:
        assert lock.is_there
        path.rename(tmp_path / "aside")
        assert not lock.is_there
        path.touch()
        assert not lock.is_there
        path.unlink()
        (tmp_path / "aside").rename(path)
        assert lock.is_there


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("content")
    (tmp_path / "lock").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic"):
        DirectoryLock(tmp_path / "lock")


def test_its_file_is_nobody_elses_to_read_unless_that_is_meant(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path / "own"), DirectoryLock(tmp_path / "shown", mode=0o604):
        assert (tmp_path / "own").stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "shown").stat().st_mode & 0o777 == 0o604

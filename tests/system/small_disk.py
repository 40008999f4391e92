"""A file system of a few MiB, to be filled."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted_disk(directory: Path, mebibytes: int, *, inodes: int = 0) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    mounted = directory / "disk"
    mounted.mkdir()
    options = f"size={mebibytes}m,nr_inodes={inodes},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(mounted)], check=True)
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", str(mounted)], check=True)


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """Files in the directory that are open can still be written, as after a change of its owner."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a directory")
    subprocess.run(["mount", "--bind", str(directory), str(directory)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(directory)], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


@contextmanager
def no_inodes(disk: Path) -> Iterator[None]:
    """Takes up all inodes of a small disk."""
    ballast = disk / "ballast"
    ballast.mkdir()
    with pytest.raises(OSError, match="No space left"):
        for number in range(10_000):
            (ballast / str(number)).touch()
    try:
        yield
    finally:
        shutil.rmtree(ballast)

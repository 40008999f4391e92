"""A file system of a few MiB, to be filled."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted_disk(directory: Path, mebibytes: int) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    mounted = directory / "disk"
    mounted.mkdir()
    options = f"size={mebibytes}m,mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(mounted)], check=True)
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", str(mounted)], check=True)

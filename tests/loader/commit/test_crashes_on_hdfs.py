"""A loader on HDFS that is killed with its JVM, at every step: every event lands once."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hdfs import RunningHdfs

REPOSITORY = Path(__file__).resolve().parent.parent.parent.parent


@pytest.mark.slow
def test_killed_at_every_step(hdfs: RunningHdfs, hdfs_root: str) -> None:
    settings = [f"{key}={value}" for key, value in hdfs.configuration.items()]
    run = subprocess.run(
        [sys.executable, "-m", "tests.loader.commit.killed_on_hdfs", hdfs_root, *settings],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 12

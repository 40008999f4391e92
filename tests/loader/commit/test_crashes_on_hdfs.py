"""A loader on HDFS that is killed with its JVM, step by step: every event lands once.

At every third step, by chance from the first, second or third on; HYPOTHESIS_PROFILE=fuzz: at all.
On a local disk, test_crashes.py kills at steps of a larger load.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from harness.hdfs import RunningHdfs

REPOSITORY = Path(__file__).resolve().parent.parent.parent.parent

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.fuzz
def test_killed_at_one_step_after_the_other(hdfs: RunningHdfs, hdfs_root: str) -> None:
    settings = [f"{key}={value}" for key, value in hdfs.configuration.items()]
    # A moment is before a step or after it; what is there after one is there before the next, too.
    first, stride = (0, 2) if LONG else (random.SystemRandom().choice((0, 2, 4)), 6)
    told = [str(first), str(stride), *settings]
    run = subprocess.run(
        [sys.executable, "-m", "tests.loader.commit.killed_on_hdfs", hdfs_root, *told],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > (12 if LONG else 4)

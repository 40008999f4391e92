"""Wherever a loader stops, and whoever goes on: every event lands once; nothing else is seen."""

import itertools
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from pyspark.sql import SparkSession

from harness.hadoop.hdfs import RunningHdfs
from loader.errors import RunTaken
from loader.store.local import LocalStore
from loader.store.store import Store
from tests.loader.commit.killed_at_every_step import MEMORY
from tests.loader.commit.small_loader import (
    after_first_load,
    assert_all_landed_once,
    second_load,
    small_load,
    small_log,
    whole_log,
)
from tests.loader.commit.stepping_store import At, SteppingStore, StoppedHere, Turns, stop
from tests.loader.store.hadoop_stores import hadoop_store

REPOSITORY = Path(__file__).resolve().parents[3]
FUZZ: Final = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
STRIDE: Final = 1 if FUZZ else 120
NOT_QUICK = pytest.mark.not_quick("goes on from a crash at each of very many steps")


@pytest.fixture
def prepared() -> Iterator[Path]:
    """A root with one load in it; in memory, where syncing costs nothing."""
    with TemporaryDirectory(dir=MEMORY) as folder:
        after_first_load(LocalStore(f"file://{folder}/prepared"))
        yield Path(folder, "prepared")


@NOT_QUICK
@pytest.mark.timeout(900)
def test_killed_at_every_step() -> None:
    """Steps of the kernel's. Really killed."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.loader.commit.killed_at_every_step"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 150


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.fuzz
def test_stopped_on_hdfs_at_one_step_after_the_other(
    spark: SparkSession, hdfs: RunningHdfs, hdfs_root: str
) -> None:
    """At every third step of the store's, from the first, second or third on."""
    # A moment is before a step or after it; what is there after one is there before the next, too.
    first, stride = (0, 2) if FUZZ else (random.SystemRandom().choice((0, 2, 4)), 6)
    for life in itertools.count():
        store = partial(hadoop_store, spark, hdfs.configuration, f"{hdfs_root}/{life}")
        after_first_load(store())
        at = At(first + stride * life, stop)
        try:
            small_load(SteppingStore(store(), at), "stopped").load()
        except StoppedHere:
            small_load(store(), "next").load()
        assert_all_landed_once(store(), small_log())
        if not at.reached:
            break
    assert life > (12 if FUZZ else 4)


@pytest.mark.fuzz
def test_two_loaders_in_turn(prepared: Path) -> None:
    """One stops at a step, the other goes on to one of its own, then each goes to its end.

    Here, to look at a file is a step as well. Of all pairs of steps, one in STRIDE.
    """
    first = taken = 0
    while True:
        second = -first % STRIDE
        while True:
            turns = Turns(first, second)
            taken += two_loaders(prepared, turns)
            if turns.steps[1] <= second:
                break
            second += STRIDE
        if turns.steps[0] <= first:
            break
        first += 1
    assert first > 80
    assert taken


@NOT_QUICK
def test_two_loaders_at_the_same_time(prepared: Path) -> None:
    for _ in range(5):
        two_loaders(prepared, None)


def two_loaders(prepared: Path, turns: Turns | None) -> int:
    """How many found that the other was faster. A third follows, and all is as it must be."""
    root = shutil.copytree(prepared, prepared.with_name("copy"))
    taken = []

    def load(who: int) -> None:
        store: Store = LocalStore(f"file://{root}")
        if turns is not None:
            store = SteppingStore(store, partial(turns.step, who), reading=True)
        try:
            second_load(store, f"loader{who}").load()
        except RunTaken:
            taken.append(who)

    if turns is not None:
        turns.run(partial(load, 0), partial(load, 1))
    else:
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(load, range(2)))
    assert len(taken) < 2
    store = LocalStore(f"file://{root}")
    second_load(store, "next").load()
    assert_all_landed_once(store, whole_log())
    shutil.rmtree(root)
    return len(taken)

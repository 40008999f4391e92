"""Wherever a loader stops, and whoever goes on: every event lands once; nothing else is seen."""

import os
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

from loader.errors import RunTaken
from loader.store.local import LocalStore
from loader.store.store import Store
from tests.loader.commit.killed_at_every_step import MEMORY
from tests.loader.commit.scenario import after_first_load, second_load, whole_log
from tests.loader.commit.small_loader import assert_all_landed_once
from tests.loader.commit.stepping_store import At, SteppingStore, StoppedHere, Turns, stop

REPOSITORY = Path(__file__).resolve().parent.parent.parent.parent
STRIDE: Final = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 60


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory, where syncing costs nothing."""
    with TemporaryDirectory(dir=MEMORY) as path:
        yield Path(path)


@pytest.fixture
def prepared(folder: Path) -> Path:
    """A root with one load in it."""
    after_first_load(LocalStore(f"file://{folder}/prepared"))
    return folder / "prepared"


def test_two_loads_one_after_the_other_land_everything_once(prepared: Path) -> None:
    store = LocalStore(f"file://{prepared}")
    second_load(store, "second").load()
    assert_all_landed_once(store, whole_log())


@pytest.mark.not_quick("goes on from a crash at each of very many steps")
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


@pytest.mark.not_quick("goes on from a crash at each of very many steps")
def test_failing_at_every_step(prepared: Path) -> None:
    """Steps of the store's: before, or after what it did. The same process goes on."""
    number = 0
    while True:
        step = At(number, stop)
        root = shutil.copytree(prepared, prepared.parent / str(number))
        store = LocalStore(f"file://{root}")
        try:
            second_load(SteppingStore(store, step), "stopped").load()
        except StoppedHere:
            second_load(store, "next").load()
        assert_all_landed_once(store, whole_log())
        shutil.rmtree(root)
        if not step.reached:
            break
        number += 1
    assert number > 40


@pytest.mark.fuzz
def test_two_loaders_in_turn(prepared: Path) -> None:
    """One stops at a step, the other goes on to one of its own, then each goes to its end.

    Here, to look at a file is a step as well. Of all pairs of steps, every so manieth.
    """
    first = taken = 0
    while True:
        second = -first % STRIDE
        while True:
            root = shutil.copytree(prepared, prepared.parent / f"{first}-{second}")
            turns = Turns(first, second)
            taken += two_loaders(root, turns)
            shutil.rmtree(root)
            if turns.steps[1] <= second:
                break
            second += STRIDE
        if turns.steps[0] <= first:
            break
        first += 1
    assert first > 80
    assert taken


@pytest.mark.not_quick("goes on from a crash at each of very many steps")
@pytest.mark.parametrize("attempt", range(5))
def test_two_loaders_at_the_same_time(prepared: Path, attempt: int) -> None:
    two_loaders(prepared, None)


def two_loaders(root: Path, turns: Turns | None) -> int:
    """How many found that the other was faster. A third follows, and all is as it must be."""
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
    return len(taken)

"""A crash anywhere: what was told before it is there, and nothing of what was being told."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.journal import generations
from agent.journal.recovery import recover
from tests.agent.journal.random_acts import LIMIT, Acts
from tests.agent.journal.samples import Seen, files, open_journal, seen_contents

IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"


class Watched:
    """A journal that is acted upon, and what it held after each act."""

    def __init__(self, directory: Path, decisions: Random) -> None:
        self._directory = directory
        self._decisions = decisions
        self._journal, _ = open_journal(directory, limit=LIMIT)
        self._acts = Acts(self._journal, decisions)
        self.seen: list[tuple[int, int, Seen]] = []  # generation and size of its file
        self._see()

    def act(self, count: int) -> None:
        for _ in range(count):
            self._acts.act()
            self._see()

    def reopen(self) -> None:
        self._journal.close()
        self._journal, state = open_journal(self._directory, limit=LIMIT)
        assert state.damage is None
        assert state.is_copy_of is None
        self._acts.journal = self._journal
        self._see()
        assert self.seen[-1][2] == self.seen[-2][2]

    def close(self) -> None:
        self._journal.close()
        self._see()

    def _see(self) -> None:
        sizes = self._journal.sizes
        held = seen_contents(self._journal._contents)
        self.seen.append((sizes.generation, sizes.file_bytes, held))


@settings(max_examples=10_000 if IS_LONG else 20)
@given(st.integers(0, 1 << 30), st.integers(1, 120))
def test_torn_anywhere(seed: int, count: int) -> None:
    """Of the newest file, any beginning may be all that is left."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        watched = Watched(path, Random(seed))
        watched.act(count)
        watched.reopen()
        watched.act(count // 2)
        watched.close()
        check_beginnings(path, watched.seen)


def check_beginnings(directory: Path, seen: list[tuple[int, int, Seen]]) -> None:
    whole = recover(tuple(generations.found(directory).items()))
    assert whole.contents.next_number <= len(seen) * 5
    newest = whole.path
    for size in beginnings(newest.stat().st_size):
        os.truncate(newest, size)
        found = recover(tuple(generations.found(directory).items()))
        assert found.damage is None
        expected = held_at(seen, whole.generation, max(size, whole.stood_at))
        assert seen_contents(found.contents) == expected, size
        assert found.generation == (whole.generation - (size < whole.stood_at))


def beginnings(size: int) -> list[int]:
    """Some, the longest first: a shorter one is made from it."""
    some = range(0, size, 1 if IS_LONG else max(1, size // 40))
    return sorted({size, *some, *range(max(0, size - 20), size)}, reverse=True)


def held_at(seen: list[tuple[int, int, Seen]], generation: int, size: int) -> Seen:
    """What the journal held when its newest file was so large."""
    fitting = [held for g, end, held in seen if (g, end) <= (generation, size)]
    return fitting[-1]


@pytest.mark.fuzz
def test_killed_at_any_instant(tmp_path: Path) -> None:
    decisions = Random(0 if not IS_LONG else time.time_ns())
    for index in range(500 if IS_LONG else 2):
        directory = tmp_path / str(index)
        seed = decisions.randrange(1 << 30)
        done = acts_until_killed(directory, seed, decisions.random() * 0.15)
        found = recover(tuple(generations.found(directory).items()))
        held = after_acts(tmp_path / "reference", seed, [done, done + 1])
        assert seen_contents(found.contents) in held, (seed, done)
        journal, state = open_journal(directory)
        assert state.damage is None
        assert seen_contents(journal._contents) in held
        journal.close()
        shutil.rmtree(directory)


def acts_until_killed(directory: Path, seed: int, seconds: float) -> int:
    command = [sys.executable, "-m", "tests.agent.journal.random_acts", str(directory), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(seconds)
        process.kill()
        return (first + process.stdout.read()).count(b".\n")


def after_acts(directory: Path, seed: int, counts: Iterable[int]) -> list[Seen]:
    """What a journal holds after so many acts."""
    journal, _ = open_journal(directory)
    acts = Acts(journal, Random(seed))
    held = []
    done = 0
    for count in counts:
        for _ in range(count - done):
            acts.act()
        done = count
        held.append(seen_contents(journal._contents))
    journal.close()
    shutil.rmtree(directory)
    return held


def test_these_acts_do_something(tmp_path: Path) -> None:
    """Or the tests above would show nothing."""
    held = after_acts(tmp_path / "journal", 5, range(400))
    assert sum(before != after for before, after in pairwise(held)) > 250
    assert max(len(each.open) for each in held) > 5
    assert max(len(each.statements) for each in held) > 20
    watched = Watched(tmp_path / "other", Random(5))
    watched.act(400)
    watched.close()
    assert watched.seen[-1][0] > 2
    assert len(files(tmp_path / "other")) == 2

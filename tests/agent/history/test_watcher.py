"""A watcher that goes on with what an earlier one has left finds what that one would have found."""

import os
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.history.name_events import Event
from agent.history.position import HistoryPosition
from agent.history.watcher import LeftHistory, Watcher


def left_by(watcher: Watcher) -> LeftHistory:
    left = LeftHistory(os.dup(watcher.descriptor), os.dup(watcher.memory))
    watcher.close()
    return left


def successor(watcher: Watcher, number: int = 0) -> Watcher:
    reached = HistoryPosition(watcher.epoch, number)
    return Watcher(left=left_by(watcher), reached=reached)


def came(watcher: Watcher) -> list[tuple[str, str]]:
    return [(each.folder, each.name) for each in watcher.names]


@pytest.mark.parametrize("count", [9, 10, 16, 26, 300])
def test_many_folders(tmp_path: Path, count: int) -> None:
    """Whatever numbers the kernel gives to their watches."""
    folders = [tmp_path / str(number) for number in range(count)]
    watcher = Watcher()
    for folder in folders:
        folder.mkdir()
        watcher.watch_folder(str(folder))
    epoch = watcher.epoch
    after = successor(watcher)
    for folder in folders:
        (folder / "app.log.1").touch()
    after.collect()
    assert (after.goes_on, after.epoch) == (True, epoch)
    assert came(after) == [(str(folder), "app.log.1") for folder in folders]
    for folder in folders:
        assert after.watch_folder(str(folder)) == ""
    assert after.newly_watched == {}, "each has been watched all the time"
    after.close()


@pytest.mark.parametrize("why", ["another epoch", "no position", "freed", "no queue"])
def test_what_is_not_the_whole_history_is_not_gone_on_with(tmp_path: Path, why: str) -> None:
    watcher = Watcher()
    watcher.watch_folder(str(tmp_path))
    (tmp_path / "one").touch()
    watcher.collect()
    number = watcher.number
    reached: HistoryPosition | None = HistoryPosition(watcher.epoch, number)
    left = left_by(watcher)
    if why == "another epoch":
        reached = HistoryPosition("0" * 32, number)
    elif why == "no position":
        reached = None
    elif why == "freed":
        reached = HistoryPosition(reached.epoch if reached else "", number + 1)
    else:
        os.close(left.queue)
        left = left._replace(queue=os.open("/dev/null", os.O_RDONLY))
    after = Watcher(left=left, reached=reached)
    assert (after.goes_on, after.names) == (False, [])
    assert after.watch_folder(str(tmp_path)) == ""
    (tmp_path / "two").touch()
    after.collect()
    assert came(after) == [(str(tmp_path), "two")]
    after.close()


class Tree:
    """Folders in which things happen; `watch` watches all that are there, as a scan would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "a" / "b").mkdir(parents=True)
        (root / "link").symlink_to(root / "a")

    def folders(self) -> list[Path]:
        return sorted(path for path in [self.root, *self.root.rglob("*")] if path.is_dir())

    def watch(self, watcher: Watcher) -> None:
        folders = [str(path) for path in self.folders()]
        for path in folders:
            assert watcher.watch_folder(path) == ""
        watcher.unwatch_folders_but(set(folders))

    def act(self, chance: random.Random, number: int) -> None:
        folders = self.folders()
        folder = chance.choice(folders)
        act = chance.choice(["make", "make", "rename", "delete", "mkdir", "move", "rmtree"])
        files = [path for path in self.root.rglob("*") if path.is_file()]
        if act == "make":
            (folder / f"f{number}").touch()
        elif act == "rename" and files:
            chance.choice(files).rename(folder / f"r{number}")
        elif act == "delete" and files:
            chance.choice(files).unlink()
        elif act == "mkdir":
            (folder / f"d{number}").mkdir()
        elif act == "move" and len(folders) > 1:
            moved = chance.choice([each for each in folders[1:] if not each.is_symlink()])
            if moved not in [folder.resolve(), *folder.resolve().parents]:
                moved.rename(folder / f"m{number}")
        elif act == "rmtree" and len(folders) > 3:
            removed = chance.choice(folders[1:])
            removed.unlink() if removed.is_symlink() else shutil.rmtree(removed)


@settings(max_examples=30)
@given(seed=st.integers(0, 1 << 32))
def test_whoever_reads_finds_the_same(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """One watcher lives all the time; the other one dies again and again, and its successor goes
    on from the beginning, as if nothing had been written down."""
    chance = random.Random(seed)
    tree = Tree(tmp_path_factory.mktemp("tree"))
    living, dying = Watcher(), Watcher()
    reached = 0
    try:
        for number in range(30):
            for watcher in (living, dying):
                tree.watch(watcher)
            for each in range(chance.randrange(4)):
                tree.act(chance, 10 * number + each)
            for collects in (False, True):
                if collects:
                    living.collect()
                    dying.collect()
                if chance.random() < 0.3:
                    dying = successor(dying, reached)
                    assert dying.goes_on
            assert _without_watches(dying.names) == _without_watches(living.names)
            assert dying._watched.keys() == living._watched.keys()
            numbers = [each.number for each in dying.names]
            assert numbers == sorted(numbers)
            assert numbers == [each.number for each in living.names]
            if chance.random() < 0.2:  # what is settled need not be kept
                living.names, dying.names = [], []
                reached = dying.number
                dying.position_journalled(reached)
                assert dying._memory is not None
                assert dying._memory._renew(reached, 0)
    finally:
        living.close()
        dying.close()


def _without_watches(names: list[Event[str]]) -> list[tuple[str, int, str]]:
    """Numbers of watches and cookies are each queue's own."""
    return [(each.folder, each.mask, each.name) for each in names]

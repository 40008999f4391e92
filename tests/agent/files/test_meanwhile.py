"""What came and went while no agent ran, by the history of names that was kept."""

import gzip
import os
import shutil
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from agent.file_inputs import FileInput
from agent.history.blind_times import Traces
from penstock.up.descriptor_store import ProgramDescriptors
from tests.agent.files.journalled_files import Follow, JournalledFiles, append, written_at_once
from tests.agent.files.kept_files import kept_files, turns


class TestMeanwhile:
    """What came and went while no agent ran, by the history that was kept."""

    @pytest.fixture
    def all_files(
        self, tmp_path: Path, follow: Follow, store: ProgramDescriptors
    ) -> JournalledFiles:
        append(tmp_path / "app.log", "first\n")
        files = follow("app.log*", store=store)
        turns(files)
        files.crash()
        return files

    def told(self, folder: Path, files: JournalledFiles) -> Traces | None:
        files.restart_closed()
        turns(files)
        said = [each.traces for each in files.unwatched if each.path == str(folder)]
        return said[-1] if said else None

    def come_and_go(self, *paths: Path) -> None:
        """One file, by one name after the other."""
        append(paths[0], "nobody's\n")
        for path, then in pairwise(paths):
            path.rename(then)
        paths[-1].unlink()

    def test_nothing(self, tmp_path: Path, all_files: JournalledFiles) -> None:
        assert self.told(tmp_path, all_files) is None

    def test_what_is_there_was_not_missed(self, tmp_path: Path, all_files: JournalledFiles) -> None:
        append(tmp_path / "app.log.2", "second\n")
        written_at_once(tmp_path / "app.log.2")
        (tmp_path / "app.log").rename(tmp_path / "app.log.1")
        (tmp_path / "app.log.1").unlink()
        assert self.told(tmp_path, all_files) is None
        assert all_files.text == b"first\nsecond\n"

    @pytest.mark.parametrize("names", [("app.log.7", "other"), ("other", "app.log.7")])
    def test_what_came_and_went(
        self, tmp_path: Path, all_files: JournalledFiles, names: Sequence[str]
    ) -> None:
        self.come_and_go(*(tmp_path / name for name in names))
        assert self.told(tmp_path, all_files) is Traces.CHANGED

    def test_it_is_known_again_the_next_time(
        self, tmp_path: Path, all_files: JournalledFiles
    ) -> None:
        self.come_and_go(tmp_path / "other")
        assert self.told(tmp_path, all_files) is None
        all_files.crash()
        self.come_and_go(tmp_path / "other")
        assert self.told(tmp_path, all_files) is None

    def test_without_the_queue_nothing_is_known(
        self, tmp_path: Path, all_files: JournalledFiles, store: ProgramDescriptors
    ) -> None:
        (name,) = [name for name in store.kept() if name.endswith(".events")]
        os.close(store._kept.pop(name))
        self.come_and_go(tmp_path / "other")
        assert self.told(tmp_path, all_files) is Traces.CHANGED

    @pytest.mark.parametrize("is_meant", [False, True])
    def test_what_nobody_knew_was_renamed(
        self, tmp_path: Path, follow: Follow, store: ProgramDescriptors, is_meant: bool
    ) -> None:
        """It was there and empty, and its handle was not kept."""
        files = follow("app.log*" if is_meant else "app.log", store=store)
        (tmp_path / "app.log").touch()
        turns(files)
        files.crash()
        (name,) = kept_files(store)
        os.close(store._kept.pop(name))
        append(tmp_path / "app.log", "one\n")
        written_at_once(tmp_path / "app.log")
        (tmp_path / "app.log").rename(tmp_path / "app.log.1")
        wanted = None if is_meant else Traces.CHANGED
        assert self.told(tmp_path, files) is wanted
        assert files.text == (b"one\n" if is_meant else b"")

    def test_an_archive_that_was_deleted(self, tmp_path: Path, store: ProgramDescriptors) -> None:
        """As every rotation deletes the oldest one. Nobody reads archives for themselves."""
        for number in range(1, 4):
            (tmp_path / f"app.log.{number}.gz").write_bytes(gzip.compress(b"old\n"))
        files = JournalledFiles(FileInput("in", "t", (f"{tmp_path}/app.log*",)), store=store)
        turns(files)
        files.crash()
        (tmp_path / "app.log.3.gz").unlink()
        for number in (2, 1):
            name = f"app.log.{number}.gz"
            (tmp_path / name).rename(tmp_path / f"app.log.{number + 1}.gz")
        assert self.told(tmp_path, files) is None
        files.close()

    @pytest.mark.parametrize("comes_and_goes", [False, True])
    @pytest.mark.parametrize("is_told", [False, True])
    def test_a_folder_that_was_made_anew(
        self, tmp_path: Path, store: ProgramDescriptors, is_told: bool, comes_and_goes: bool
    ) -> None:
        """What came and went in it before it was watched, no event tells; nor, where the folder
        above is not watched, whether it is the first that was made."""
        folder = tmp_path / "logs"
        folder.mkdir()
        paths = [f"{folder}/*.log", *([f"{tmp_path}/*.log"] if is_told else [])]
        files = JournalledFiles(FileInput("in", "t", tuple(paths)), store=store)
        turns(files)
        files.crash()
        folder.rename(tmp_path / "old")
        folder.mkdir()
        if comes_and_goes:
            time.sleep(0.05)
            self.come_and_go(folder / "app.log")
        is_known = is_told and not comes_and_goes
        assert self.told(folder, files) is (None if is_known else Traces.CHANGED)
        files.close()

    def test_a_folder_that_came_and_went(self, tmp_path: Path, store: ProgramDescriptors) -> None:
        """With a file that nobody has seen; another one has its place."""
        folder, above = tmp_path / "logs", f"{tmp_path}/app.log"
        folder.mkdir()
        paths = (f"{folder}/app.log", above)
        files = JournalledFiles(FileInput("in", "t", paths), store=store)
        turns(files)
        files.crash()
        for text in ("second\n", "third\n"):
            shutil.rmtree(folder)
            folder.mkdir()
            append(folder / "app.log", text)
        files.restart_closed()
        turns(files)
        said = [each.reason for each in files.unwatched if each.traces is Traces.CHANGED]
        assert said == ["came and went between two looks: logs"]
        files.close()

    def test_a_queue_that_overflowed(self, tmp_path: Path, all_files: JournalledFiles) -> None:
        most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        one, other = tmp_path / "a", tmp_path / "b"
        one.touch()
        for _ in range(most // 4 + 1):  # two events each way
            one.rename(other)
            other.rename(one)
        assert self.told(tmp_path, all_files) is Traces.CHANGED


def test_the_position_is_written_down_when_names_change_and_at_no_other_look(
    tmp_path: Path, follow: Follow
) -> None:
    """Also after the kernel lost events, and where a link to a watched folder goes."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "logs")
    files = follow("*/app.log*")
    log, other = tmp_path / "logs" / "app.log", tmp_path / "logs" / "app.log.0"
    append(log, "one\n")
    append(other, "one\n")
    turns(files)

    def written(act: Callable[[], object]) -> int:
        act()
        turns(files, 20)
        before = files.positions
        turns(files, 20)
        append(other, "two\n")
        turns(files, 20)
        assert files.positions == before, "nothing but a file has changed"
        return before

    begun = written(lambda: None)
    renamed = written(lambda: log.rename(f"{log}.1"))
    unlinked = written((tmp_path / "link").unlink)

    def lose_events() -> None:
        files.files._shared.watcher.overflowed = True

    assert begun < renamed < unlinked < written(lose_events)

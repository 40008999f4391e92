"""Folders that come while the agent runs, or are replaced: what is said of their past."""

import shutil
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.history.blind_times import Traces
from tests.agent.files.journalled_files import Follow, JournalledFiles, append, rest, tick


def settle(files: JournalledFiles) -> None:
    for _ in range(4):
        tick()
        files.turn(6.0)


def said_of(folder: Path, files: JournalledFiles) -> list[str]:
    assert all(each.path == str(folder) for each in files.unwatched)
    assert all(each.traces in {Traces.CHANGED, Traces.BRIEF} for each in files.unwatched)
    return [each.reason for each in files.unwatched if each.traces is Traces.CHANGED]


@pytest.fixture(params=["new", "replaced"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """One that is made before the next look, of which nobody knows yet."""
    if request.param == "replaced":
        (tmp_path / "shop").mkdir()
        append(tmp_path / "shop" / "app.log", "before\n")
    return tmp_path / "shop"


@pytest.fixture
def files(follow: Follow, folder: Path) -> JournalledFiles:
    files = follow("*/app.log*")
    rest(files)
    if folder.exists():
        shutil.rmtree(folder)
    files.read.clear()
    return files


def test_something_came_and_went_and_nothing_since(files: JournalledFiles, folder: Path) -> None:
    before = time.time() * 1000
    folder.mkdir()
    append(folder / "app.log.1", "nobody has seen this\n")
    append(folder / "app.log", "new\n")
    tick()
    (folder / "app.log.1").unlink()
    settle(files)
    (reason,) = said_of(folder, files)
    assert reason == "it was not watched before; names came and went"
    (said,) = files.unwatched
    assert said.from_millis <= before < said.to_millis
    assert files.text == b"new\n"


def test_names_came_and_went_for_longer_than_a_moment(files: JournalledFiles, folder: Path) -> None:
    folder.mkdir()
    append(folder / "app.log", "nobody has seen this\n")
    time.sleep(1.1)
    (folder / "app.log").unlink()
    append(folder / "app.log", "new\n")
    settle(files)
    (reason,) = said_of(folder, files)
    assert reason == "it was not watched before; names came or went for longer than a second"


def test_it_is_made_and_something_in_it(files: JournalledFiles, folder: Path) -> None:
    folder.mkdir()
    tick()
    append(folder / "app.log", "one\n")
    tick()
    append(folder / "app.log", "two\n")
    settle(files)
    assert files.text == b"one\ntwo\n"
    assert files.unwatched == []


def test_it_is_made_and_a_finished_file_renamed_in_it(files: JournalledFiles, folder: Path) -> None:
    folder.mkdir()
    append(folder / "new", "one\n")
    tick()
    (folder / "new").rename(folder / "app.log")
    settle(files)
    assert files.text == b"one\n"
    assert files.unwatched == []


def test_it_is_made_and_empty(files: JournalledFiles, folder: Path) -> None:
    folder.mkdir()
    settle(files)
    assert files.unwatched == []


def test_one_that_is_moved_there(files: JournalledFiles, folder: Path, tmp_path: Path) -> None:
    """What came and went in it before has nothing to do with any input."""
    made = tmp_path / "elsewhere" / "made"
    made.mkdir(parents=True)
    append(made / "app.log", "one\n")
    append(made / "app.log.1", "other\n")
    tick()
    (made / "app.log.1").unlink()
    settle(files)
    made.rename(folder)
    settle(files)
    assert files.text == b"one\n"
    assert files.unwatched == []


def test_what_comes_and_goes_once_it_is_watched(files: JournalledFiles, folder: Path) -> None:
    folder.mkdir()
    files.turn()
    append(folder / "app.log", "one\n")
    tick()
    files.turn()
    (folder / "app.log").rename(folder / "app.log.1")
    append(folder / "app.log", "two\n")
    (folder / "app.log.1").unlink()
    settle(files)
    assert files.text == b"one\ntwo\n"
    assert files.unwatched == []


@pytest.mark.parametrize("comes_and_goes", [False, True])
def test_behind_a_link_that_is_switched(
    follow: Follow, tmp_path: Path, comes_and_goes: bool
) -> None:
    """The kernel tells of nothing until everything is listed."""
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
        append(tmp_path / name / "app.log", f"{name}\n")
    (tmp_path / "current").symlink_to("1")
    files = follow("current/app.log*")
    rest(files)
    files.turn(6.0)
    (tmp_path / "new").symlink_to("2")
    (tmp_path / "new").rename(tmp_path / "current")
    tick()
    if comes_and_goes:
        append(tmp_path / "2" / "app.log.1", "nobody has seen this\n")
        tick()
        (tmp_path / "2" / "app.log.1").unlink()
    append(tmp_path / "1" / "other", "an event of the one that was watched\n")
    for _ in range(3):
        tick()
        files.turn()
    settle(files)
    assert files.text == b"1\n2\n"
    assert len(said_of(tmp_path / "current", files)) == comes_and_goes


def test_folders_that_an_input_means_only_now(follow: Follow, tmp_path: Path) -> None:
    files = follow("a/app.log")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    rest(files)
    append(tmp_path / "b" / "app.log", "one\n")
    tick()
    (tmp_path / "b" / "app.log").unlink()
    (wider,) = files.inputs
    files.files.reconfigure([replace(wider, paths=(f"{tmp_path}/*/app.log",))])
    settle(files)
    assert files.unwatched == []
    (tmp_path / "c").mkdir()
    append(tmp_path / "c" / "app.log", "one\n")
    tick()
    (tmp_path / "c" / "app.log").unlink()
    settle(files)
    assert len(said_of(tmp_path / "c", files)) == 1, "what comes after that is known to be new"

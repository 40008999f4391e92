"""Times in which nobody looked, and what folders tell of them afterwards."""

import os
import shutil
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.files.listing import Listing, Survey
from agent.files.unwatched import Folders, told
from agent.history.blind_times import MOST_FOLDERS, NOT_KNOWN, Blind, Stamp, Traces
from tests.agent.files.journalled_files import Follow, append, of_folders, rest, settle


def test_the_first_start_has_no_blind_time(follow: Follow, tmp_path: Path) -> None:
    append(tmp_path / "app.log", "one\n")
    files = follow()
    settle(files)
    assert files.unwatched == []


def test_where_nothing_came_or_went(follow: Follow, tmp_path: Path) -> None:
    """Though a file has grown."""
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    rest(files)
    files.files.close()
    stopped = time.time() * 1000
    append(log, "two\n")
    files.restart_closed()
    files.turn()
    (said,) = files.unwatched
    assert (said.topic, said.path, said.source, said.position) == ("t", str(tmp_path), "", -1)
    assert said.traces is Traces.UNCHANGED
    assert said.from_millis <= stopped <= said.to_millis
    assert files.text == b"one\ntwo\n"


def test_where_a_file_came_and_went(follow: Follow, tmp_path: Path) -> None:
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    rest(files)
    files.files.close()
    append(tmp_path / "app.log.tmp", "nobody has seen this\n")
    (tmp_path / "app.log.tmp").unlink()
    files.restart_closed()
    files.turn()
    assert [each.traces for each in files.unwatched] == [Traces.CHANGED]


def test_where_files_were_rotated(follow: Follow, tmp_path: Path) -> None:
    """All that are known were found; something may have come and gone all the same. Names that are
    missing are named."""
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    append(tmp_path / "app.log.1", "older\n")
    rest(files)
    files.files.close()
    (tmp_path / "app.log.1").rename(tmp_path / "app.log.4")
    log.rename(tmp_path / "app.log.2")
    append(log, "new\n")
    append(tmp_path / "app.log.1", "newer\n")
    files.restart_closed()
    files.turn()
    (said,) = of_folders(files)
    assert said.traces is Traces.CHANGED
    assert "names came or went" in said.reason
    assert "new: app.log, app.log.1" in said.reason


def test_a_change_in_the_tick_of_the_last_look_counts(follow: Follow, tmp_path: Path) -> None:
    """It would leave the folder's times as they were."""
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    rest(files)
    hour_on = time.time_ns() + 3_600_000_000_000
    os.utime(tmp_path, ns=(hour_on, hour_on))  # the tick of that time is not over
    rest(files)
    files.turn(6.0)
    files.files.close()
    assert tmp_path.stat().st_mtime_ns == hour_on
    files.restart_closed()
    files.turn()
    assert [each.traces for each in files.unwatched] == [Traces.CHANGED]


def test_folders_that_come_and_go(follow: Follow, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        append(tmp_path / name / "app.log", f"{name}\n")
    files = follow("*/app.log")
    rest(files)
    files.files.close()
    (tmp_path / "c").mkdir()
    append(tmp_path / "c" / "app.log", "c\n")
    shutil.rmtree(tmp_path / "b")
    files.restart_closed()
    settle(files)
    found = {Path(each.path).name: each for each in of_folders(files)}
    assert found["a"].traces is Traces.UNCHANGED
    assert found["b"].traces is found["c"].traces is Traces.CHANGED
    assert found[tmp_path.name].traces is Traces.CHANGED
    assert "not there any more" in found["b"].reason


def test_folders_that_only_new_patterns_lead_to(follow: Follow, tmp_path: Path) -> None:
    """As in a first start: what lay in them before nobody had asked for."""
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        append(tmp_path / name / "app.log", f"{name}\n")
    files = follow("a/*.log", exclude=("c",))
    rest(files)
    files.crash()
    (tmp_path / "new").mkdir()
    (one,) = files.inputs
    wider = tuple(str(tmp_path / each) for each in ("a/*.log", "[!n]/*.log"))
    files.inputs = [replace(one, paths=wider, exclude=())]
    files.restart_closed()
    rest(files)
    assert {each.path: each.traces for each in of_folders(files)} == {
        str(tmp_path / "a"): Traces.UNCHANGED
    }
    assert sorted(files.text.split()) == [b"a", b"b", b"c"]
    files.said.clear()
    files.crash()
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "d").mkdir()
    files.restart_closed()
    rest(files)
    found = {Path(each.path).name: each for each in of_folders(files)}
    assert found["b"].traces is found["d"].traces is Traces.CHANGED
    assert "the folder is new" in found["d"].reason


def test_folders_that_no_pattern_leads_to_any_more(follow: Follow, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        append(tmp_path / name / "app.log", f"{name}\n")
    files = follow("*/*.log")
    rest(files)
    files.crash()
    (one,) = files.inputs
    files.inputs = [replace(one, paths=(str(tmp_path / "a" / "*.log"),))]
    files.restart_closed()
    rest(files)
    found = {Path(each.path).name: each for each in of_folders(files)}
    assert found["a"].traces is Traces.UNCHANGED
    assert found["b"].traces is Traces.CHANGED
    assert "no pattern leads there any more" in found["b"].reason


def test_a_folder_that_is_gone_is_said_once(follow: Follow, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        append(tmp_path / name / "app.log", f"{name}\n")
    files = follow("*/app.log")
    rest(files)
    files.crash()
    shutil.rmtree(tmp_path / "b")
    files.restart_closed()
    rest(files)
    assert str(tmp_path / "b") in {each.path for each in of_folders(files)}
    files.said.clear()
    files.restart()
    rest(files)
    assert {each.traces for each in files.unwatched} == {Traces.UNCHANGED}


def test_a_folder_that_came_and_went(follow: Follow, tmp_path: Path) -> None:
    """What is above it shows that."""
    files = follow("shop/app.log")
    rest(files)
    files.files.close()
    (tmp_path / "shop").mkdir()
    append(tmp_path / "shop" / "app.log", "nobody has seen this\n")
    shutil.rmtree(tmp_path / "shop")
    files.restart_closed()
    files.turn()
    assert [each.traces for each in files.unwatched] == [Traces.CHANGED]


def test_many_folders_are_one_statement(follow: Follow, tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number:02}").mkdir()
        append(tmp_path / f"{number:02}" / "app.log", f"{number}\n")
    files = follow("*/app.log")
    rest(files)
    files.restart()
    files.turn()
    (said,) = files.unwatched
    assert (said.path, said.traces) == (str(tmp_path), Traces.UNCHANGED)
    assert "51 folders" in said.reason


@pytest.mark.not_quick("very many files")
@pytest.mark.parametrize("beyond", [0, 1])
def test_more_folders_than_are_remembered(beyond: int) -> None:
    """Of others nothing can be told, whether or not they are still there."""
    stamps = {f"/logs/{number}": Stamp(1, number, 3, 4, True) for number in range(MOST_FOLDERS)}
    more = {f"/{number}": Stamp(1, number, 3, 4, True) for number in range(beyond)}
    folders, survey = Folders(), Survey(["/**"], (), print)
    listing = Listing(stamps=more | stamps, complete=True)
    folders.take(Listing(stamps=stamps, complete=True), NOT_KNOWN, 5)
    folders.take(listing, NOT_KNOWN, 6)
    looked = folders.looked_at("in", 0, 0).after(None)
    assert looked.folders == stamps  # what is known stays so
    blind = Blind("t", 6, 9, "nobody looked")
    for now in (listing, Listing(stamps=stamps, complete=True)):
        said = told(survey, now, stamps, looked, blind, known=set(), written={})
        assert [each.traces for each in said] == [Traces.OTHER] * beyond + [Traces.UNCHANGED]
        if beyond:
            assert f"of more folders than {MOST_FOLDERS} it is not remembered" in said[0].reason


def test_a_clock_that_went_back_hides_nothing(follow: Follow, tmp_path: Path) -> None:
    wall = time.time()
    files, log = follow(wall=wall), tmp_path / "app.log"
    append(log, "one\n")
    rest(files)
    stopped = files.wall
    assert stopped is not None
    files.files.close()
    append(tmp_path / "app.log.tmp", "x")
    (tmp_path / "app.log.tmp").unlink()
    files.wall = wall - 7200
    files.restart_closed()
    files.turn()
    (said,) = files.unwatched
    assert said.traces is Traces.CHANGED
    assert said.from_millis <= (wall - 7200) * 1000 + 1000
    assert said.to_millis > stopped * 1000 - 1000


def written_later(path: Path) -> None:
    """As by a program that went on for ten seconds."""
    later = time.time() + 10
    os.utime(path, (later, later))


def test_a_file_of_which_nothing_was_read_may_have_been_emptied(
    follow: Follow, tmp_path: Path
) -> None:
    """It was empty, and nothing came or went; a moment is too short for that."""
    files = follow("*.log")
    for name in ("app.log", "brief.log", "idle.log"):
        (tmp_path / name).touch()
    append(tmp_path / "known.log", "one\n")
    rest(files)
    files.files.close()
    append(tmp_path / "app.log", "nobody has seen this\n")
    for name in ("app.log", "brief.log"):
        (tmp_path / name).write_text("two\n")
    append(tmp_path / "known.log", "two\n")
    for name in ("app.log", "known.log"):
        written_later(tmp_path / name)
    files.restart_closed()
    settle(files)
    (said,) = files.unwatched
    assert (said.path, said.traces) == (str(tmp_path), Traces.CHANGED)
    assert said.reason.endswith("may have been emptied: app.log")


def test_an_empty_file_that_was_not_asked_for_before(follow: Follow, tmp_path: Path) -> None:
    files = follow("*.log")
    (tmp_path / "app.txt").touch()
    rest(files)
    files.files.close()
    append(tmp_path / "app.txt", "one\n")
    written_later(tmp_path / "app.txt")
    files.inputs = [replace(files.inputs[0], paths=(*files.inputs[0].paths, f"{tmp_path}/*.txt"))]
    files.restart_closed()
    settle(files)
    assert [each.traces for each in files.unwatched] == [Traces.UNCHANGED]
    assert files.text == b"one\n"

"""Following files: which are meant, where they begin, what is no file. See also the model."""

import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from agent.file_inputs import FileInput
from agent.files.files import Files
from agent.files.happenings import (
    Appeared,
    Compressed,
    Deleted,
    Polling,
    Released,
    Renamed,
    Unreadable,
)
from harness.open_files import open_files
from tests.agent.files.journalled_files import Follow, append


def test_what_is_appended_is_read_once(follow: Follow, tmp_path: Path) -> None:
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    assert files.turn() == b"one\n"
    append(log, "two\n")
    assert files.turn() == b"two\n"
    assert files.turn(60.0) == b""


def test_an_idle_file_is_heard_of_by_its_event(follow: Follow, tmp_path: Path) -> None:
    files, log = follow(scan_interval=1e9), tmp_path / "app.log"
    append(log, "one\n")
    files.turn()
    for _ in range(3):
        files.look(1.0)
    append(log, "two\n")
    assert files.turn() == b"two\n"


def test_at_rest_nothing_but_an_event_can_bring_something(follow: Follow, tmp_path: Path) -> None:
    files, log = follow(scan_interval=1e9), tmp_path / "app.log"
    files.turn()
    files.turn()
    assert files.files.at_rest
    append(log, "one\n")
    files.turn()
    files.turn()
    assert not files.files.at_rest  # it may grow on
    append(log, "two\n")
    files.look()
    assert not files.files.at_rest  # there is something to be read
    files.turn()
    files.turn(1.0)
    files.turn(1.0)
    assert files.files.at_rest
    append(log, "three\n")
    files.files.wait(60.0)
    files.look()
    assert not files.files.at_rest


def test_what_grows_now_and_then_is_watched_again_at_once(follow: Follow, tmp_path: Path) -> None:
    files = follow(scan_interval=1e9)
    with (tmp_path / "app.log").open("ab", buffering=0) as log:
        log.write(b"one\n")
        for _ in range(3):
            files.turn(1.0)
        assert files.files.at_rest
        log.write(b"two\n")
        assert files.turn(1.0) == b"two\n"
        files.turn()
        assert files.files.at_rest
        log.write(b"three\n")
        assert files.turn() == b"three\n"
        files.turn()
        assert not files.files.at_rest  # so soon after the last one it may grow on


def test_without_events_there_is_no_rest(tmp_path: Path, follow: Follow) -> None:
    files, log = follow(scan_interval=1e9, events=False), tmp_path / "app.log"
    append(log, "one\n")
    files.turn()
    for _ in range(3):
        files.turn(1.0)
    assert not files.files.at_rest


def test_hard_and_symbolic_links_are_one_file(follow: Follow, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, "one\n")
    (tmp_path / "app.log.hard").hardlink_to(log)
    (tmp_path / "app.log.soft").symlink_to(log)
    (tmp_path / "app.log.loop").symlink_to("app.log.loop")
    (tmp_path / "app.log.nowhere").symlink_to("nowhere")
    files = follow()
    assert files.turn() == b"one\n"
    assert next(files.of(Appeared)).followed.path == str(log)
    assert [Path(each.path).name for each in files.of(Unreadable)] == ["app.log.loop"]
    log.unlink()
    append(tmp_path / "app.log.hard", "two\n")
    assert files.turn() == b"two\n"


def test_a_link_that_is_led_elsewhere(follow: Follow, tmp_path: Path) -> None:
    files, link = follow("current"), tmp_path / "current"
    append(tmp_path / "1.log", "one\n")
    append(tmp_path / "2.log", "two\n")
    link.symlink_to("1.log")
    assert files.turn() == b"one\n"
    link.unlink()
    link.symlink_to("2.log")
    append(tmp_path / "1.log", "late\n")
    assert sorted(files.turn().split()) == [b"late", b"two"]


def test_what_is_no_file_is_left_alone(follow: Follow, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "app.log")
    (tmp_path / "app.log.d").mkdir()
    os.mkfifo(tmp_path / "literal")
    files = follow("app.log*", "literal")
    assert files.turn() == b""
    assert files.said == []
    (tmp_path / "app.log").unlink()
    append(tmp_path / "app.log", "one\n")
    assert files.turn() == b"one\n"
    (tmp_path / "app.log").unlink()
    os.mkfifo(tmp_path / "app.log")
    assert files.turn(10.0) == b""  # folders are listed the later the longer it took
    assert [type(each) for each in files.said] == [Appeared, Deleted]


def test_compressed_files_are_not_read(follow: Follow, tmp_path: Path) -> None:
    append(tmp_path / "app.log.1.gz", "whatever")
    (tmp_path / "app.log.2").write_bytes(b"\x1f\x8b\x08\0\0\0")
    files = follow()
    assert files.turn() == b""
    assert files.turn(6.0) == b""
    assert [each.is_left for each in files.of(Compressed)] == [True, True]
    assert files.files.following() == []


def test_a_folder_that_comes_and_goes(follow: Follow, tmp_path: Path) -> None:
    files, folder = follow("**/deep/app.log", scan_interval=1e9), tmp_path / "a" / "deep"
    files.look()
    folder.mkdir(parents=True)
    append(folder / "app.log", "one\n")
    assert files.turn() == b"one\n"
    append(folder / "app.log", "two\n")
    shutil.rmtree(tmp_path / "a")
    assert files.turn() == b"two\n"
    folder.mkdir(parents=True)
    files.look()
    append(folder / "app.log", "three\n")
    assert files.turn() == b"three\n"


def test_the_folder_of_an_input_comes_later(follow: Follow, tmp_path: Path) -> None:
    files = follow("x/y/app.log", scan_interval=1e9)
    files.look()
    (tmp_path / "x").mkdir()
    files.look()
    (tmp_path / "x" / "y").mkdir()
    files.look()
    append(tmp_path / "x" / "y" / "app.log", "one\n")
    assert files.turn() == b"one\n"


def test_names_need_not_be_utf_8(follow: Follow, tmp_path: Path) -> None:
    name = os.path.join(os.fsencode(tmp_path), b"app.log\xff\xfe")  # noqa: PTH118
    Path(os.fsdecode(name)).write_text("one\n")
    files = follow()
    assert files.turn() == b"one\n"
    assert os.fsencode(next(files.of(Appeared)).followed.path) == name


@pytest.mark.parametrize(
    ("start", "read"),
    [("beginning", b"old\n"), ("end", b""), ("2026-11-20", b""), ("2020-01-01", b"old\n")],
)
def test_where_a_new_input_starts(follow: Follow, tmp_path: Path, start: str, read: bytes) -> None:
    log = tmp_path / "app.log"
    log.write_text("old\n")
    os.utime(log, (1_700_000_000, 1_700_000_000))
    files = follow(start=start)
    assert files.turn() == read
    append(log, "new\n")
    append(tmp_path / "app.log.later", "later\n")
    assert sorted(files.turn().split()) == [b"later", b"new"]
    append(tmp_path / "app.log.down", "down\n")
    files.restart()
    assert files.turn() == b"down\n"


def test_at_the_end_is_where_the_last_line_ends(follow: Follow, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("old\nhalf")
    files = follow(start="end")
    files.look()
    append(log, " and whole\n")
    assert files.turn() == b"half and whole\n"


def test_old_files_are_begun_when_they_are_touched(follow: Follow, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("old\n")
    files = follow(ignore_older=3600.0, wall=time.time())
    os.utime(log, (time.time() - 7200, time.time() - 7200))
    assert files.turn() == b""
    files.wall = time.time() - 100_000  # a clock that is set back makes nothing old
    append(log, "new\n")
    assert files.turn(6.0) == b"old\nnew\n"


def test_handles_are_capped(follow: Follow, tmp_path: Path) -> None:
    files = follow(open_files=3)
    for number in range(10):
        append(tmp_path / f"app.log.{number}", f"{number}\n")
    assert len(files.turn()) == 20
    handles = [each for each in open_files().values() if each.is_relative_to(tmp_path)]
    assert len(handles) == 3
    for number in range(10):
        append(tmp_path / f"app.log.{number}", f"{number}+\n")
    files.look(1.0)
    assert len(files.turn(1.0)) == 30


def test_who_waits_longest_is_first(follow: Follow, tmp_path: Path) -> None:
    files = follow()
    for name in "abc":
        append(tmp_path / f"app.log.{name}", f"{name}" * 10)
    files.look()
    read = [files.read_one(files.files.ready()[0], 1) for _ in range(6)]
    assert sorted(read[:3]) == sorted(read[3:]) == [b"a", b"b", b"c"]


def test_inputs_that_change(follow: Follow, tmp_path: Path) -> None:
    files = follow("app.log*")
    append(tmp_path / "app.log", "one\n")
    append(tmp_path / "app.log.x", "x\n")
    append(tmp_path / "other", "other\n")
    files.turn()
    other = FileInput("other", "t2", (str(tmp_path / "other"),))
    narrow = FileInput("in", "t", (str(tmp_path / "app.log*"),), exclude=("*.x",))
    said = files.files.reconfigure([narrow, other])
    assert [Path(each.followed.path).name for each in said if isinstance(each, Released)] == [
        "app.log.x"
    ]
    append(tmp_path / "app.log", "two\n")
    append(tmp_path / "app.log.x", "x2\n")
    assert sorted(files.turn().split()) == [b"other", b"two"]
    files.files.reconfigure([FileInput("in", "t", (str(tmp_path / "app.log*"),)), other])
    assert files.turn() == b"x2\n"


def test_an_input_with_another_name_goes_on(follow: Follow, tmp_path: Path) -> None:
    files = follow()
    append(tmp_path / "app.log", "one\n")
    files.turn()
    append(tmp_path / "app.log", "two\n")
    files.inputs = [FileInput("renamed", "t", (str(tmp_path / "app.log*"),), start="end")]
    files.restart()
    assert files.turn() == b"two\n"


def test_without_events_everything_is_found_by_scans(follow: Follow, tmp_path: Path) -> None:
    files, log = follow(events=False), tmp_path / "app.log"
    files.look()
    append(log, "one\n")
    assert files.turn(6.0) == b"one\n"
    files.look(1.0)
    append(log, "two\n")
    files.look(0.6)
    assert files.turn(0.6) == b"two\n"
    log.rename(tmp_path / "app.log.1")
    append(log, "three\n")
    assert files.turn(6.0) == b"three\n"
    assert len(list(files.of(Polling))) == 1
    assert [each.followed.source for each in files.of(Renamed)] == ["s1"]


def test_waiting_ends_with_an_event_or_a_call(follow: Follow, tmp_path: Path) -> None:
    files: Files = follow().files
    files.look(0.0)
    files.wait(0.0)
    for wake in (files.wake, lambda: append(tmp_path / "app.log", "one\n")):
        timer = threading.Timer(0.05, wake)
        timer.start()
        started = time.monotonic()
        files.wait(30.0)
        assert time.monotonic() - started < 20.0
        timer.join()

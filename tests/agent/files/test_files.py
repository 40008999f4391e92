"""Following files, by what people do to them. The model does the rest (`test_files_model`)."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.config import HoldDeleted
from agent.files.files import Files
from agent.files.happenings import (
    Appeared,
    Compressed,
    Deleted,
    Ended,
    Grown,
    Lost,
    Polling,
    Released,
    Renamed,
    Truncated,
    Unreadable,
)
from agent.files.inputs import FileInput
from tests.agent.files.journalled_files import JournalledFiles

Follow = Callable[..., JournalledFiles]


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Follow]:
    started = []

    def start(*patterns: str, **options: object) -> JournalledFiles:
        paths = tuple(str(tmp_path / each) for each in patterns or ("app.log*",))
        own = {
            key: options.pop(key) for key in ("exclude", "start", "ignore_older") if key in options
        }
        of = FileInput("in", "t", paths, **own)  # type: ignore[arg-type]
        started.append(JournalledFiles(of, **options))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for each in started:
        each.close()


def leads_below(link: Path, folder: Path) -> bool:
    return link.is_symlink() and link.readlink().is_relative_to(folder)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


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


def test_a_chain_of_renames_between_two_looks(follow: Follow, tmp_path: Path) -> None:
    files, log = follow(), tmp_path / "app.log"
    append(log, "a")
    files.turn()
    append(log, "b")
    log.rename(tmp_path / "app.log.1")
    append(log, "c")
    (tmp_path / "app.log.1").rename(tmp_path / "app.log.2")
    log.rename(tmp_path / "app.log.1")
    append(log, "d")
    assert sorted(files.turn()) == sorted(b"bcd")
    first = files.read[0][0]
    assert [data for source, _, data in files.read if source == first] == [b"a", b"b"]


def test_a_renamed_file_without_a_meant_name_is_read_to_its_end(
    follow: Follow, tmp_path: Path
) -> None:
    files, log = follow("app.log"), tmp_path / "app.log"
    append(log, "a")
    files.turn()
    log.rename(tmp_path / "old")
    append(tmp_path / "old", "b")
    assert files.turn() == b"b"
    files.turn(61.0)
    files.turn(61.0)
    assert [each.followed.source for each in files.of(Ended)] == ["s1"]
    append(tmp_path / "old", "c")  # by a program that has not heard of it
    assert files.turn(6.0) == b"c"
    assert files.read[-1][:2] == ("s2", 2)


def test_a_rename_while_nobody_looked(follow: Follow, tmp_path: Path) -> None:
    files, log = follow("app.log"), tmp_path / "app.log"
    append(log, "a" * 50)
    files.turn()
    append(log, "b")
    log.rename(tmp_path / "app.log-20261120")
    append(log, "c")
    files.restart()
    assert sorted(files.turn()) == sorted(b"bc")


def test_a_copy_is_not_read_and_what_it_has_more_is(follow: Follow, tmp_path: Path) -> None:
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    files.turn()
    append(log, "two\n")
    shutil.copy(log, tmp_path / "app.log.1")
    files.look()
    os.truncate(log, 0)
    append(log, "three\n")
    files.look()
    truncated = next(files.of(Truncated))
    assert truncated.lost_bytes == 0
    assert sorted([files.read_some()]) in ([b"two\nthree\n"], [b"three\ntwo\n"])
    assert files.lost == 0


def test_what_a_truncation_destroyed_is_lost(follow: Follow, tmp_path: Path) -> None:
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    files.turn()
    append(log, "two\n")
    files.look()
    os.truncate(log, 0)
    said = files.look()
    assert [type(each) for each in said] == [Truncated, Appeared, Lost, Ended]
    lost = next(files.of(Lost))
    assert (lost.followed.source, lost.position, lost.bytes) == ("s1", 4, 4)
    append(log, "three\n")
    assert files.turn() == b"three\n"


def test_truncated_and_written_anew_to_the_same_size(follow: Follow, tmp_path: Path) -> None:
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    files.turn()
    time.sleep(0.02)  # until the clock of the file system has moved on
    log.write_text("two\n")
    assert files.turn() == b"two\n"


def test_truncated_and_written_anew_between_a_look_and_reading(
    follow: Follow, tmp_path: Path
) -> None:
    """With a head of 1 KiB that never changes: only the bytes read last tell."""
    files, log = follow(), tmp_path / "app.log"
    head = "#" * 2000
    append(log, head + "one\n")
    files.turn()
    append(log, "two\n")
    files.look()
    log.write_text(head + "new\nnext\n")
    assert files.read_some() == b""
    assert files.turn() == (head + "new\nnext\n").encode()


def test_a_deleted_file_is_read_to_its_end(follow: Follow, tmp_path: Path) -> None:
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    files.look()
    append(log, "two\n")
    log.unlink()
    assert files.turn() == b"one\ntwo\n"
    files.turn(3.0)
    assert list(files.of(Ended)) == []
    files.turn(3.0)
    kinds = [type(each) for each in files.said if not isinstance(each, Grown)]
    assert kinds == [Appeared, Deleted, Ended]


@pytest.mark.parametrize("hold", [HoldDeleted(seconds=30.0), HoldDeleted(bytes=3)])
def test_a_deleted_file_is_not_held_for_ever(
    follow: Follow, tmp_path: Path, hold: HoldDeleted
) -> None:
    files, log = follow(hold=hold), tmp_path / "app.log"
    append(log, "one\n")
    files.look()
    log.unlink()
    files.look()
    files.look(31.0)
    assert next(files.of(Lost)).bytes == 4
    assert files.files.ready() == []
    assert len(list(files.of(Ended))) == 1


def test_the_same_device_and_inode_are_another_file(follow: Follow, tmp_path: Path) -> None:
    """Without a handle only the content tells."""
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    files.turn()
    files.files.close()
    with log.open("r+") as file:
        file.write("TWO\nthree\n")
    files.restart_closed()
    assert files.turn() == b"TWO\nthree\n"


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
    assert files.turn() == b""
    assert [type(each) for each in files.said] == [Appeared, Deleted]


def test_compressed_files_are_not_read(follow: Follow, tmp_path: Path) -> None:
    append(tmp_path / "app.log.1.gz", "whatever")
    (tmp_path / "app.log.2").write_bytes(b"\x1f\x8b\x08\0\0\0")
    files = follow()
    assert files.turn() == b""
    assert files.turn(6.0) == b""
    assert len(list(files.of(Compressed))) == 1
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


def test_two_tiny_files_that_are_equal(follow: Follow, tmp_path: Path) -> None:
    files = follow()
    append(tmp_path / "app.log.a", "same\n")
    append(tmp_path / "app.log.b", "same\n")
    assert files.turn() == b"same\n"
    assert files.turn(2.5) == b"same\n"
    append(tmp_path / "app.log.b", "more\n")
    assert files.turn() == b"more\n"


def test_a_file_that_is_replaced_by_a_longer_one_of_its_beginning(
    follow: Follow, tmp_path: Path
) -> None:
    """As rsync does it with a log of another host."""
    files, log = follow(), tmp_path / "app.log"
    log.write_text("x" * 2000)
    files.turn()
    (tmp_path / "new").write_text("x" * 2000 + "more")
    (tmp_path / "new").rename(log)
    assert files.turn() == b"more"
    assert files.read[-1][:2] == ("s1", 2000)


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
    files.wall -= 100_000  # a clock that is set back makes nothing old
    append(log, "new\n")
    assert files.turn(6.0) == b"old\nnew\n"


def test_a_finished_file_is_not_read_again(follow: Follow, tmp_path: Path) -> None:
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    files.turn()
    log.rename(tmp_path / "app.log.1")
    files.turn()
    files.turn(61.0)
    assert len(list(files.of(Ended))) == 1
    assert files.files.following() == []
    files.restart()
    assert files.turn() == b""
    (tmp_path / "app.log.1").rename(tmp_path / "app.log.2")
    assert files.turn() == b""
    append(tmp_path / "app.log.2", "two\n")
    assert files.turn(6.0) == b"two\n"


def test_handles_are_capped(follow: Follow, tmp_path: Path) -> None:
    files = follow(open_files=3)
    for number in range(10):
        append(tmp_path / f"app.log.{number}", f"{number}\n")
    assert len(files.turn()) == 20
    handles = [each for each in Path("/proc/self/fd").iterdir() if leads_below(each, tmp_path)]
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

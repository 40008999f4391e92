"""Renamed, copied, truncated, deleted, equal: which file is which."""

import os
import shutil
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.config import HoldDeleted
from agent.files.happenings import (
    Appeared,
    Deleted,
    Ended,
    EndUnseen,
    Forgettable,
    Grown,
    Lost,
    Renamed,
    Truncated,
)
from agent.history.blind_times import Traces
from agent.recognition.followed import Followed
from agent.recognition.handles import Handles
from tests.agent.files.journalled_files import (
    JournalledFiles,
    LogFolder,
    append,
    of_sources,
    settle,
)


def test_a_renamed_file_without_a_meant_name_is_read_to_its_end(logs: LogFolder) -> None:
    files, log = logs.follow("app.log"), logs.log
    append(log, "a")
    files.turn()
    log.rename(logs / "old")
    append(logs / "old", "b")
    assert files.turn() == b"b"
    files.turn(61.0)
    files.turn(61.0)
    assert [each.followed.source for each in files.of(Ended)] == ["s1"]
    append(logs / "old", "c")  # by a program that has not heard of it
    assert files.turn(6.0) == b"c"
    assert files.read[-1][:2] == ("s2", 2)


def test_what_a_truncation_destroyed_is_lost(logs: LogFolder) -> None:
    files, log = logs.follow(), logs.log
    append(log, "one\n")
    files.turn()
    append(log, "two\n")
    files.look()
    os.truncate(log, 0)
    said = files.look()
    assert [type(each) for each in said] == [Truncated, Appeared, Lost, EndUnseen, Forgettable]
    assert [(each.source, each.position) for each in files.unwatched] == [("s1", 8)]
    lost = next(files.of(Lost))
    assert (lost.followed.source, lost.position, lost.bytes) == ("s1", 4, 4)
    append(log, "three\n")
    assert files.turn() == b"three\n"


def test_a_copy_that_lacks_what_was_lost_is_known_after_a_restart(logs: LogFolder) -> None:
    files, log = logs.follow("app.log", "app.log.1"), logs.log
    append(log, "one\n" * 30)
    files.turn()
    shutil.copy(log, logs / "app.log.1")
    append(log, "lost\n")
    files.look()
    os.truncate(log, 0)
    append(log, "two\n")
    while not files.lost:
        files.turn()
    assert files.lost == 5
    files.restart()
    settle(files)
    assert files.text == b"one\n" * 30 + b"two\n"
    assert (files.lost, list(files.of(EndUnseen))) == (5, [])


def test_truncated_and_written_anew_to_the_same_size(logs: LogFolder) -> None:
    files, log = logs.follow(), logs.log
    append(log, "one\n")
    files.turn()
    time.sleep(0.02)  # until the clock of the file system has moved on
    log.write_text("two\n")
    assert files.turn() == b"two\n"


def test_truncated_and_written_anew_between_a_look_and_reading(logs: LogFolder) -> None:
    """With a head of 1 KiB that never changes: only the bytes read last tell."""
    files, log = logs.follow(), logs.log
    head = "#" * 2000
    append(log, head + "one\n")
    files.turn()
    append(log, "two\n")
    files.look()
    log.write_text(head + "new\nnext\n")
    assert files.read_some() == b""
    assert files.turn() == (head + "new\nnext\n").encode()


@pytest.mark.parametrize("first", [Followed.take_fingerprint, lambda it: it.read(1 << 20)])
@pytest.mark.parametrize(("text", "is_its"), [("two\n" * 10, False), ("one\n" * 101, True)])
def test_truncated_and_written_anew_before_anything_was_read(
    tmp_path: Path, text: str, is_its: bool, first: Callable[[Followed], bytes]
) -> None:
    """After its size was seen: what stands there then was not in the file that had that size."""
    log, handles = tmp_path / "app.log", Handles(1)
    log.write_text("one\n" * 100)
    status = log.stat()
    followed = Followed(str(log), (status.st_dev, status.st_ino), status, handles)
    log.write_text(text)
    assert first(followed) == (text.encode() if is_its else b"")
    assert followed.suspect is not is_its
    handles.close(followed)


def test_a_deleted_file_is_read_to_its_end(logs: LogFolder) -> None:
    files, log = logs.follow(), logs.log
    append(log, "one\n")
    files.look()
    append(log, "two\n")
    log.unlink()
    assert files.turn() == b"one\ntwo\n"
    files.turn(8.0)
    assert list(files.of(Ended)) == []
    files.turn(8.0)
    kinds = [type(each) for each in files.said if not isinstance(each, Grown)]
    assert kinds == [Appeared, Deleted, Ended, Forgettable]


@pytest.mark.parametrize("hold", [HoldDeleted(seconds=30.0), HoldDeleted(bytes=3)])
def test_a_deleted_file_is_not_held_for_ever(logs: LogFolder, hold: HoldDeleted) -> None:
    files, log = logs.follow(hold=hold), logs.log
    append(log, "one\n")
    files.look()
    log.unlink()
    files.look()
    files.look(31.0)
    assert next(files.of(Lost)).bytes == 4
    assert files.files.ready() == []
    assert len(list(files.of(Ended))) == 1


def test_the_same_device_and_inode_are_another_file(logs: LogFolder) -> None:
    """Without a handle only the content tells."""
    files, log = logs.follow(), logs.log
    append(log, "one\n")
    files.turn()
    files.files.close()
    with log.open("r+") as file:
        file.write("TWO\nthree\n")
    files.restart_closed()
    assert files.turn() == b"TWO\nthree\n"


def test_the_name_that_was_known_of_two_is_removed(logs: LogFolder) -> None:
    """The file is not deleted: in the same folder its other name is found, elsewhere not."""
    for other in (logs / "kept", logs / "elsewhere/app.log"):
        log = logs.log
        files = logs.follow("app.log")
        append(log, "one\n")
        files.turn()
        other.parent.mkdir(exist_ok=True)
        os.link(log, other)
        log.unlink()
        files.turn()
        found = other if other.parent == logs.path else log
        (followed,) = files.files.following()
        assert followed.current_path == str(found)
        append(other, "two\n")
        assert files.turn() == b"two\n"
        files.turn(61.0)
        files.turn(61.0)
        assert {type(each) for each in files.said} & {Ended, EndUnseen} == {Ended}
        assert not any("(deleted)" in each.last_path for each in files.journal.values())
        other.unlink()


def test_a_file_that_is_called_deleted(logs: LogFolder) -> None:
    files, log = logs.follow("app.log"), logs.log
    append(log, "one\n")
    files.turn()
    log.rename(logs / "app.log (deleted)")
    files.turn()
    assert [each.followed.current_path for each in files.of(Renamed)] == [f"{log} (deleted)"]


def test_two_tiny_files_that_are_equal(logs: LogFolder) -> None:
    files = logs.follow()
    append(logs / "app.log.a", "same\n")
    append(logs / "app.log.b", "same\n")
    assert files.turn() == b"same\n"
    assert files.files.undecided
    assert files.turn(2.5) == b"same\n"
    assert not files.files.undecided
    append(logs / "app.log.b", "more\n")
    assert files.turn() == b"more\n"


def test_a_finished_file_is_not_read_again(logs: LogFolder) -> None:
    files, log = logs.follow(), logs.log
    append(log, "one\n")
    files.turn()
    log.rename(logs / "app.log.1")
    files.turn()
    files.turn(61.0)
    assert len(list(files.of(Ended))) == 1
    assert files.files.following() == []
    files.restart()
    assert files.turn() == b""
    (logs / "app.log.1").rename(logs / "app.log.2")
    assert files.turn() == b""
    append(logs / "app.log.2", "two\n")
    assert files.turn(6.0) == b"two\n"


@pytest.mark.not_quick("very many files")
def test_equal_files_are_all_read(logs: LogFolder) -> None:
    """Applications that write the same are not copies of each other, however many and large."""
    for text in ("one line\n", "x" * 100 + "\n" + "ten kilobytes\n" * 750):
        for number in range(50):
            append(logs / f"app.log.{len(text)}.{number}", text)
        files = logs.follow(f"app.log.{len(text)}.*")
        turn_until(files, len(text) * 50)
        for number in range(50, 100):
            append(logs / f"app.log.{len(text)}.{number}", text)
        turn_until(files, len(text) * 100)
        assert files.text == text.encode() * 100
        assert files.turn(6.0) == b""
        assert files.lost == 0


def turn_until(files: JournalledFiles, size: int) -> None:
    """One look begins only so many files as the processor lets it in its time; a file that begins
    as another one is waited for, should it be a copy that grows."""
    looks = 0
    while len(files.text) < size and looks < 1000:
        files.turn(2.1 if looks % 10 == 9 else 0.05)
        looks += 1


def test_a_copy_that_takes_long(logs: LogFolder) -> None:
    """As long as it grows it is waited for."""
    files, log = logs.follow(), logs.log
    append(log, "x" * 5000)
    files.turn()
    for _ in range(5):
        append(logs / "app.log.1", "x" * 1000)
        assert files.turn(1.5) == b""
    append(log, "y")
    append(logs / "app.log.1", "y")
    os.truncate(log, 0)
    assert files.turn(1.5) == b"y"
    assert files.turn(6.0) == b""
    assert [each.followed.source for each in files.of(Renamed)] == ["s1"]


def test_the_copy_of_one_of_many_that_begin_alike(logs: LogFolder) -> None:
    """As those of one daemon for each tenant do."""
    files = logs.follow("*.log*", open_files=10)
    head = "#" * 2000 + "\n"
    paths = [logs / f"{number:03}.log" for number in range(40)]
    for number, log in enumerate(paths):
        append(log, f"{head}{number}\n")
    files.turn()
    files.turn(2.1)
    assert len({source for source, _, _ in files.read}) == 40
    files.read.clear()
    append(paths[20], "unread\n")
    for log in (paths[39], paths[20], paths[0]):
        shutil.copy(log, f"{log}.1")
    files.look()
    for log in (paths[39], paths[20], paths[0]):
        os.truncate(log, 0)
    assert files.turn() == b"unread\n"
    assert files.turn(6.0) == b""
    assert files.lost == 0


def test_a_file_that_was_deleted_never_comes_back(logs: LogFolder) -> None:
    """Whatever has its device and inode afterwards."""
    files, log = logs.follow(), logs.log
    for text in ("backup done\n", "backup done\n", "backup done\nmore\n"):
        time.sleep(0.02)  # until the clock of the file system has moved on
        append(log, text)
        assert files.turn() == text.encode()
        log.unlink()
        files.turn()
        files.turn(16.0)
        assert files.journal == {}


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("text", ["report\n", "report\n" * 1000])
def test_the_same_content_that_is_written_while_nobody_looks(
    logs: LogFolder, text: str, finished: bool
) -> None:
    """To a new file, which may have the inode of the old one."""
    files, log = logs.follow(), logs.log
    append(log, text)
    files.turn()
    if finished:
        log.rename(logs / "app.log.1")
        log = logs / "app.log.1"
        files.turn()
        files.now += 61.0
        files.turn()
        assert len(list(files.of(Ended))) == 1
    files.files.close()
    log.unlink()
    time.sleep(0.02)  # until the clock of the file system has moved on
    append(log, text)
    files.restart_closed()
    assert files.turn() + files.turn(6.0) == text.encode()
    files.restart()
    assert files.turn() + files.turn(6.0) == b""


@pytest.mark.parametrize("is_copied", [True, False])
@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_truncated_and_then_renamed_while_nobody_looked(
    logs: LogFolder, pattern: str, is_copied: bool
) -> None:
    """It is the file that was made when this one was, so what has its bytes is its copy, also if
    that was written to after the last look."""
    files, log = logs.follow(pattern), logs.log
    read = "".join(f"line {number}\n" for number in range(200))
    append(log, read)
    assert files.turn() == read.encode()
    files.crash()
    time.sleep(0.02)  # until the clock of the file system has moved on
    append(log, "after that\n")
    if is_copied:
        shutil.copy2(log, logs / "app.log.2")
    log.write_text("two\n")
    log.rename(logs / "app.log.1")
    append(log, "three\n")
    files.restart_closed()
    files.turn()
    files.turn(6.0)
    wanted = [b"three", b"two", *([b"after that"] if is_copied else [])]
    assert sorted(files.text.removeprefix(read.encode()).splitlines()) == sorted(wanted)
    assert files.lost == 0
    traces = [] if is_copied else [Traces.TRUNCATED]
    assert [each.traces for each in of_sources(files)] == traces
    settle(files)
    (following,) = (source for source, _, data in files.read if data == b"two\n")
    is_over = following in {each.followed.source for each in files.of(Ended)}
    assert is_over == (pattern == "app.log"), "as any that was renamed"


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_a_file_of_which_nothing_was_read_is_renamed_while_nobody_looks(
    logs: LogFolder, pattern: str
) -> None:
    """It has no content to be known by: when it was made, it is."""
    files, log = logs.follow(pattern), logs.log
    append(log, "one\n")
    files.turn()
    os.truncate(log, 0)
    files.turn()
    (said,) = of_sources(files)
    assert said.traces is Traces.TRUNCATED
    files.crash()
    append(log, "two\n")
    log.rename(logs / "app.log.1")
    append(log, "three\n")
    files.restart_closed()
    files.turn()
    files.turn(6.0)
    assert sorted(files.text.split()) == [b"one", b"three", b"two"]
    assert of_sources(files) == [said]


def test_a_finished_file_that_is_written_anew_in_place(logs: LogFolder) -> None:
    files, log = logs.follow(), logs / "app.log.1"
    head = "#" * 2000
    append(logs.log, head + "one\n")
    files.turn()
    (logs.log).rename(log)
    files.turn()
    files.turn(61.0)
    assert len(list(files.of(Ended))) == 1
    files.restart()
    append(log, "more\n")
    assert files.turn() == b"more\n"
    files.turn(61.0)
    files.files.close()
    log.write_text(head + "new\n" * 100)
    files.restart_closed()
    assert files.turn() == (head + "new\n" * 100).encode()


def test_a_mark_over_many_short_reads(logs: LogFolder) -> None:
    """It is of 64 bytes, also if they were read one by one."""
    files, log = logs.follow(), logs.log
    append(log, "".join(f"{number:03}\n" for number in range(50)))
    files.look()
    for _ in range(30):
        files.read_some(5)
    (known,) = files.journal.values()
    assert known.progress.position == 150
    assert known.progress.mark == zlib.crc32(log.read_bytes()[150 - 64 : 150])

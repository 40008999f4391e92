"""Renamed, copied, truncated, deleted, equal: which file is which."""

import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.configuration.config import HoldDeleted
from agent.files.happenings import (
    Appeared,
    Deleted,
    Ended,
    EndUnseen,
    Forgettable,
    Grown,
    Lost,
    Truncated,
)
from agent.history.blind_times import Traces
from agent.open_files.open_file_limit import Handles
from agent.recognition.followed import Followed
from tests.agent.files.journalled_files import (
    JournalledFiles,
    LogFolder,
    append,
    of_sources,
    settle,
)
from tests.agent.files.scenarios import Scenario, Steps, check, scenarios

FINISHED = "mv app.log app.log.1; turn; turn 61; turn 61; "
REST = "turn; turn 6"


@scenarios(
    Scenario(
        "a renamed file without a meant name is read to its end, and again when it grows on",
        "write app.log a; turn; mv app.log old; write old b; turn; turn 61; turn 61; "
        "write old c; turn 6",
        "a b c",
        follow="app.log",
        counts={"sources": 2, "ended": 1},
    ),
    Scenario(
        "a finished file is not read again, but when it grows on",
        f"write app.log one; turn; {FINISHED}stop; start; turn; mv app.log.1 app.log.2; turn; "
        "write app.log.2 two; turn 6",
        "one two",
        counts={"sources": 2, "ended": 1},
    ),
    Scenario(
        "a finished file that is written anew in place",
        f"write app.log head*400 one; turn; {FINISHED}stop; start; write app.log.1 more; turn; "
        "turn 61; stop; set app.log.1 head*400 new*100; start; turn",
        "head*400 one more head*400 new*100",
        ("truncated app.log.1 from 2009: *",),
    ),
    Scenario(
        "a file that is replaced by a longer one of its beginning, as rsync does it",
        "write app.log x*1000; turn; cp app.log new; write new more; tick; mv new app.log; turn",
        "x*1000 more",
        counts={"sources": 1},
    ),
    Scenario(
        "written between copying and truncating, and read: the copy has less",
        "write app.log one; turn; cp app.log app.log.1; look; write app.log two; turn; "
        "truncate app.log; turn; turn 3; stop; start; turn 3",
        "one two",
    ),
    Scenario(
        "written between copying and truncating, and not read: it is lost",
        "write app.log one; turn; cp app.log app.log.1; look; write app.log two; look; "
        "truncate app.log; turn; turn 3; stop; start; turn 3",
        "one",
        lost=4,
    ),
    Scenario(
        "truncated and written anew to the same size",
        "write app.log one; turn; tick; set app.log two; turn",
        "one two",
        ("overwritten app.log from 4: *",),
    ),
    Scenario(
        "two tiny files that are equal",
        "write app.log.a same; write app.log.b same; turn; turn 2.5; write app.log.b more; turn",
        "same same more",
        counts={"sources": 2},
    ),
    Scenario(
        "a copy that takes long is waited for as long as it grows",
        "write app.log x*2500; turn; write app.log.1 x*500; turn 1.5; write app.log.1 x*500; "
        "turn 1.5; write app.log.1 x*1000; turn 1.5; write app.log.1 x*500; turn 1.5; "
        "write app.log y; write app.log.1 y; truncate app.log; turn 1.5; turn 6",
        "x*2500 y",
        counts={"sources": 1},
    ),
    Scenario(
        "a file that was deleted never comes back, whatever has its device and inode",
        "write app.log done; turn; rm app.log; turn; turn 16; tick; "
        "write app.log done; turn; rm app.log; turn; turn 16; tick; "
        "write app.log done more; turn; rm app.log; turn; turn 16",
        "done done done more",
        counts={"sources": 3, "ended": 3},
    ),
    *(
        Scenario(
            f"the same content of {count} lines is written while nobody looks to a {what} file",
            f"write app.log report*{count}; turn; {finish}stop; rm {name}; tick; "
            f"write {name} report*{count}; start; {REST}; stop; start; {REST}",
            f"report*{2 * count}",
            said,
            counts={"sources": 2},
        )
        for count in (1, 1000)
        for what, finish, name, said in (
            ("finished", FINISHED, "app.log.1", ()),
            ("new", "", "app.log", ("vanished app.log from *",)),
        )
    ),
    *(
        # It is the file that was made when this one was, so what has its bytes is its copy, also if
        # that was written to after the last look.
        Scenario(
            f"truncated and then renamed while nobody looked, {follow}, {copy or 'no copy'}",
            f"write app.log 0..200; turn; stop; tick; write app.log after; {copy}set app.log two; "
            f"mv app.log app.log.1; write app.log three; start; {REST}; settle",
            f"0..200 two three {'after' if copy else ''}",
            () if copy else ("truncated app.log* from 1400: *",),
            follow,
            counts={"ended": 1 + (follow == "app.log") if copy else int(follow == "app.log")},
        )
        for follow in ("app.log", "app.log*")
        for copy in ("", "cp2 app.log app.log.2; ")
    ),
    *(
        Scenario(
            f"a file of which nothing was read is renamed while nobody looks, {follow}",
            "write app.log one; turn; truncate app.log; turn; stop; write app.log two; "
            f"mv app.log app.log.1; write app.log three; start; {REST}",
            "one two three",
            ("truncated app.log from 4: *",),
            follow,
        )
        for follow in ("app.log", "app.log*")
    ),
)
def test_which_file_is_which(logs: LogFolder, scenario: Scenario) -> None:
    """What is said of folders is not the subject here."""
    check(logs, scenario, ignore="* .: *")


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


def test_overwritten_by_another_process_while_it_grows(logs: LogFolder) -> None:
    files = logs.follow("app.log")
    Steps(logs, files).play("write app.log 0..300; rest")
    (followed,) = files.files.following()
    followed.progress = replace(followed.progress, seq=300)
    with logs.log.open("r+b") as file:
        file.write(b"x" * 700)
    Steps(logs, files).play("write app.log 300..310; settle")
    (statement,) = of_sources(files)
    assert (statement.traces, statement.position) == (Traces.OVERWRITTEN, 2_100)
    assert statement.reason == (
        "it had 2100 bytes, then 2170, but not those that were read; read again from byte 0 as "
        "source s2: up to 300 events may be there twice"
    )
    assert files.lost == 0


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

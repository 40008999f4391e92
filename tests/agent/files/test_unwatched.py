"""What nobody saw of the ends of files; what is let go while somebody may write to it."""

import gzip
import os
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.configuration.config import HoldDeleted
from agent.configuration.file_inputs import FileInput
from agent.files.happenings import Ended, EndUnseen
from agent.history.blind_times import Traces
from tests.agent.files.journalled_files import (
    JournalledFiles,
    LogFolder,
    append,
    of_folders,
    of_sources,
    rest,
    settle,
    tick,
)
from tests.agent.files.scenarios import Scenario, check, scenarios
from tests.agent.nobody import as_nobody, open_folder

TELLS = [True, False] if os.geteuid() == 0 else [True]  # the kernel, who has a file open
LINK = "mkdir pods; write pods/0.log one; link pods/0.log current.log; "
SWITCH = "write pods/1.log three; rm current.log; link pods/1.log current.log; "


@scenarios(
    Scenario(
        "a file that grew and went while nobody looked: it is said once",
        "write app.log seen; rest; stop; write app.log unseen; rm app.log; start; settle; rest; "
        "stop; start; settle",
        "seen",
        ("changed .: *", "vanished app.log from 5: ", "unchanged .: *"),
        counts={"ended": 0},
    ),
    Scenario(
        "behind a link that was switched while nobody looked: the file still lies there",
        f"{LINK}rest; stop; write pods/0.log two; {SWITCH}start; settle; rest; stop; start; settle",
        "one two three",
        ("changed .: *", "unchanged .: *"),
        "current.log",
        counts={"sources": 2, "ended": 1},
    ),
    Scenario(
        "moved below its folder under no pattern while nobody looked: it is found there",
        "mkdir d; write app.log 1; rest; stop; write app.log 2; mv app.log d/1; start; settle",
        "1 2",
        ("changed .: *files; renamed: app.log to d/1; whether another *",),
        counts={"sources": 1, "ended": 1},
    ),
    Scenario(
        "begun and renamed under no pattern, without a history of names: it is said where it lies",
        "touch app.log; rest; stop; rm app.log; write app.log unseen; mv app.log b; start; settle",
        "",
        ("changed .: *; new under no pattern: b (7 bytes); whether another *",),
    ),
    *(
        Scenario(
            f"behind a link that is switched with {handles} handles",
            f"{LINK}write 0.log 0; write 1.log 1; write 2.log 2; write 3.log 3; rest; rest; "
            f"write pods/0.log two; {SWITCH}settle",
            "one two three 0 1 2 3",
            follow="*.log",
            options={"open_files": handles},
        )
        for handles in (100, 1)
    ),
    Scenario(
        "truncated with a copy nothing is unknown",
        "write app.log one; rest; write app.log two; cp app.log app.log.1; truncate app.log; "
        "write app.log three; settle",
        "one two three",
    ),
    Scenario(
        "truncated while the agent was frozen: what was seen and not read is lost, to the byte",
        "write app.log one; rest; write app.log two; look; tick; write app.log unseen; tick; "
        "truncate app.log; write app.log new; settle",
        "one new",
        ("truncated app.log from 8: *",),
        lost=4,
    ),
    Scenario(
        "truncated while nobody looked",
        "write app.log one; rest; stop; write app.log unseen; set app.log new; start; settle",
        "one new",
        ("* .: *", "truncated app.log from 4: *"),
    ),
)
def test_ends_that_nobody_saw(logs: LogFolder, scenario: Scenario) -> None:
    check(logs, scenario)


@pytest.mark.parametrize(("damaged", "torn"), [(False, False), (True, False), (False, True)])
def test_a_file_that_went_before_it_was_read(logs: LogFolder, damaged: bool, torn: bool) -> None:
    """It is lost; unless the journal was damaged, or its last entry torn, and may have forgotten
    that it was shipped."""
    files, log = logs.follow(), logs.log
    files.look()
    append(log, "one\ntwo\n")
    files.look()
    files.look()
    (known,) = files.journal.values()
    files.journal[known.id] = replace(known, size=8)
    caught_up = int(time.time() * 1000) - 60_000
    files.looked = {
        name: replace(each, caught_up_millis=caught_up) for name, each in files.looked.items()
    }
    files.crash()
    log.unlink()
    files.forgotten_before = 7 if damaged else -1
    files.torn = torn
    files.restart_closed()
    settle(files)
    knows_less = damaged or torn
    assert files.lost == (0 if knows_less else 8)
    (unseen,) = of_sources(files)
    assert unseen.position == (0 if knows_less else 8)
    assert (unseen.from_millis <= caught_up) is knows_less
    (folder,) = of_folders(files)
    assert (folder.from_millis <= caught_up) is damaged
    assert ("the journal was damaged or torn" in unseen.reason) is knows_less


def test_a_file_that_was_there_may_have_been_another_source(logs: LogFolder) -> None:
    """If the journal was damaged, and does not know it. What is made or truncated later was not;
    nor what was empty."""
    files = logs.follow("*.log")
    known, forgotten, empty = (logs / f"{each}.log" for each in ("known", "forgotten", "empty"))
    append(known, "one\n")
    append(forgotten, "two\n")
    files.turn()
    empty.touch()
    (source,) = (each.id for each in files.journal.values() if each.path == str(forgotten))
    files.crash()
    del files.journal[source]
    files.forgotten_before = 7
    files.restart_closed()
    files.turn()
    later = logs / "later.log"
    for path in (empty, later):
        append(path, f"{path.name}\n")
    rest(files)
    assert said_of(files) == {
        (str(known), -1),
        (str(forgotten), 7),
        (str(empty), -1),
        (str(later), -1),
    }
    files.forgotten_before = -1
    files.restart()
    files.turn()
    assert (str(forgotten), 7) in said_of(files)
    forgotten.write_text("")
    files.turn()
    append(forgotten, "two\n")
    settle(files)
    assert (str(forgotten), -1) in said_of(files)


def said_of(files: JournalledFiles) -> set[tuple[str, int]]:
    return {(each.path, each.forgotten_before) for each in files.journal.values()}


def test_an_archive_that_has_the_inode_of_what_is_in_it(logs: LogFolder) -> None:
    """As file systems give it that use the lowest one that is free."""
    files, log = logs.follow(), logs.log
    append(log, "one\n")
    rest(files)
    files.files.close()
    whole = log.read_bytes() + b"two\n"
    log.write_bytes(gzip.compress(whole))
    log.rename(logs / "app.log.1.gz")
    append(log, "three\n")
    files.restart_closed()
    settle(files)
    assert sorted(files.text.split()) == [b"one", b"three", b"two"]
    assert of_sources(files) == []


@pytest.mark.parametrize("grown", [False, True])
def test_a_file_without_a_handle_that_is_deleted(logs: LogFolder, grown: bool) -> None:
    """The kernel tells whether it was written to since it was looked at. If it was not, its end
    was seen."""
    files = logs.follow("*.log", open_files=2)
    paths = [logs / f"{number}.log" for number in range(6)]
    for number, log in enumerate(paths):
        append(log, f"{number}\n")
    for _ in range(4):
        files.turn(1.0)
    first = next(each for each in files.files.following() if each.fd is None)
    path = Path(first.current_path)
    if grown:
        append(path, "more\n")
    path.unlink()
    settle(files)
    ended = [each.followed for each in files.of(Ended)]
    unseen = [each.followed for each in files.of(EndUnseen)]
    assert (ended, unseen) == (([], [first]) if grown else ([first], []))


@pytest.mark.parametrize("tells", TELLS)
@pytest.mark.parametrize("ends", ["closed", "held"])
def test_a_deleted_file_is_held_as_long_as_somebody_may_write_to_it(tells: bool, ends: str) -> None:
    """And if that is too long, its end was not seen. Where the kernel does not tell who has it
    open, for so long only where it was written to after it was deleted."""
    with open_folder() as folder:
        log = folder / "app.log"
        with nullcontext() if tells else as_nobody():  # whom it tells nothing of others' files
            files = JournalledFiles(FileInput("first", "t", (str(log),)))

        def turn(seconds: float = 0.05) -> bytes:
            with nullcontext() if tells else as_nobody():
                return files.turn(seconds)

        with log.open("a") as writer:
            for text in ("one\n", "two\n"):
                writer.write(text)
                writer.flush()
                turn()
                if log.exists():
                    log.unlink()
                turn()
                tick()
            turn(20.0)
            turn(20.0)
            writer.write("three\n")
            writer.flush()
            assert turn() == b"three\n"
            if ends == "held":
                turn(3600.0)
                turn(1.0)
                (unseen,) = files.unwatched
                assert (unseen.path, unseen.position) == (str(log), len(b"one\ntwo\nthree\n"))
                assert list(files.of(Ended)) == []
        if ends == "closed" and tells:
            turn(16.0)
            turn(1.0)
            assert files.unwatched == []
            assert len(list(files.of(Ended))) == 1
        files.close()


def test_a_deleted_file_that_somebody_may_write_to_is_let_go_for_its_size(logs: LogFolder) -> None:
    files, log = logs.follow("app.log", hold=HoldDeleted(bytes=3)), logs.log
    with log.open("a") as writer:
        writer.write("one\n")
        writer.flush()
        files.turn()
        log.unlink()
        files.turn(1.0)
        files.turn(20.0)
        assert [each.position for each in files.unwatched] == [4]


@pytest.mark.parametrize("others", ["same topic", "another topic", "renamed", "moved"])
def test_what_an_input_leaves_unread(logs: LogFolder, others: str) -> None:
    """The topic's heartbeats go on with the input that stays."""
    log, other = logs.log, logs / "other.log"
    files = logs.follow("app.log")
    first = files.inputs[0]
    second = FileInput("second", "t", (str(other),))
    files.files.reconfigure([first, second])
    append(log, "one\n")
    rest(files)
    append(log, "two\n")
    before = int(time.time() * 1000)
    tick()
    wanted = {
        "same topic": [second],
        "another topic": [replace(second, name="third", topic="u")],
        "renamed": [replace(first, name="renamed"), second],
        "moved": [replace(second, paths=(str(log), str(other)))],
    }[others]
    files.said = files.files.reconfigure(wanted)
    rest(files)
    said = [each for each in of_folders(files) if each.traces is Traces.CHANGED]
    if others != "same topic":
        assert said == []
        return
    (unread,) = said
    assert (unread.topic, unread.path, unread.traces) == ("t", str(logs.path), Traces.CHANGED)
    assert unread.from_millis <= before < unread.to_millis
    assert "4 bytes of app.log" in unread.reason


def test_what_an_input_leaves_that_was_not_clear_or_not_to_be_read(tmp_path: Path) -> None:
    with open_folder() as folder:
        for name in ("a.log", "b.log"):
            append(folder / name, "one\n")
        append(folder / "c.log", "two\n")
        (folder / "c.log").chmod(0o600 if os.geteuid() == 0 else 0)
        goes, stays = (FileInput(each, "t", (f"{folder}/*.{each}",)) for each in ("log", "txt"))
        with as_nobody():
            files = JournalledFiles(goes, stays)
            assert files.turn() == b"one\n"
            files.said = files.files.reconfigure([stays])
        said = sorted(each.reason.rpartition(" ")[2] for each in of_folders(files))
        assert [said[0] in {"a.log", "b.log"}, *said[1:]] == [True, "c.log"]
        files.close()

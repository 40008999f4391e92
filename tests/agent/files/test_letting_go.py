"""What is let go while somebody may still write to it, or before it was read, is said."""

import os
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.config import HoldDeleted
from agent.file_inputs import FileInput
from agent.files.happenings import Ended
from agent.history.blind_times import Traces
from tests.agent.files.journalled_files import (
    Follow,
    JournalledFiles,
    append,
    of_folders,
    rest,
    tick,
)
from tests.agent.nobody import as_nobody, open_folder

TELLS = [True, False] if os.geteuid() == 0 else [True]  # the kernel, who has a file open


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


def test_a_deleted_file_that_somebody_may_write_to_is_let_go_for_its_size(
    follow: Follow, tmp_path: Path
) -> None:
    files, log = follow("app.log", hold=HoldDeleted(bytes=3)), tmp_path / "app.log"
    with log.open("a") as writer:
        writer.write("one\n")
        writer.flush()
        files.turn()
        log.unlink()
        files.turn(1.0)
        files.turn(20.0)
        assert [each.position for each in files.unwatched] == [4]


@pytest.mark.parametrize("others", ["same topic", "another topic", "renamed", "moved"])
def test_what_an_input_leaves_unread(follow: Follow, tmp_path: Path, others: str) -> None:
    """The topic's heartbeats go on with the input that stays."""
    log, other = tmp_path / "app.log", tmp_path / "other.log"
    files = follow("app.log")
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
    assert (unread.topic, unread.path, unread.traces) == ("t", str(tmp_path), Traces.CHANGED)
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

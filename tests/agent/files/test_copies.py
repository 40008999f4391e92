"""A file was copied and deleted while nobody looked, and no pattern means the copy's name."""

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.file_inputs import FileInput
from agent.files.happenings import Ended, EndUnseen
from agent.history.blind_times import Traces
from tests.agent.files.journalled_files import (
    Follow,
    JournalledFiles,
    append,
    of_folders,
    of_sources,
    rest,
    settle,
    tick,
)


def lines(first: int, last: int) -> str:
    return "".join(f"{number:06}\n" for number in range(first, last))


def said_of_copies(files: JournalledFiles) -> list[str]:
    return [each.reason for each in of_folders(files) if "was copied" in each.reason]


@pytest.fixture
def files(follow: Follow, tmp_path: Path) -> JournalledFiles:
    """Of a file that was read to its end, 1,400 bytes, before the agent died; 700 more followed."""
    started = follow("app.log")
    log = tmp_path / "app.log"
    append(log, lines(0, 200))
    rest(started)
    started.files.close()
    append(log, lines(200, 300))
    tick()
    return started


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "app.log"


def start_again(files: JournalledFiles) -> None:
    files.restart_closed()
    settle(files)


@pytest.mark.parametrize("copy", [shutil.copy, shutil.copy2])
def test_it_goes_on_in_the_copy(
    files: JournalledFiles, log: Path, copy: Callable[[Path, str], object]
) -> None:
    """What it got after that nobody knows, and it is said."""
    copy(log, f"{log}.1")
    os.truncate(log, 0)
    append(log, "gone\n")
    log.unlink()
    append(log, "new\n")
    start_again(files)
    first = files.read[0][0]
    text = b"".join(data for source, _, data in files.read if source == first)
    assert text.decode() == lines(0, 300)
    assert [data for source, _, data in files.read if source != first] == [b"new\n"]
    assert of_sources(files) == []
    (reason,) = said_of_copies(files)
    assert "app.log vanished" in reason
    assert "app.log.1 has it up to byte 2100" in reason
    files.restart()
    assert settle(files) == b""
    assert len(list(files.of(Ended))) == 1


def test_it_is_said_from_when_it_was_last_seen(files: JournalledFiles, log: Path) -> None:
    shutil.copy(log, f"{log}.1")
    log.unlink()
    before = files.journal[next(iter(files.journal))].seen_millis
    start_again(files)
    (unseen,) = [each for each in of_folders(files) if "was copied" in each.reason]
    assert unseen.traces is Traces.CHANGED
    assert unseen.from_millis <= before + 1
    assert unseen.to_millis >= int(log.parent.stat().st_mtime * 1000)


def test_it_goes_on_where_it_was_after_a_crash(files: JournalledFiles, log: Path) -> None:
    shutil.copy(log, f"{log}.1")
    log.unlink()
    files.restart_closed()
    for _ in range(3):
        files.look()
    files.read_some(100)
    files.crash()
    start_again(files)
    assert files.text.decode() == lines(0, 300)
    assert len({source for source, _, _ in files.read}) == 1
    assert len(said_of_copies(files)) == 1


def test_a_copy_that_has_nothing_more(follow: Follow, log: Path) -> None:
    files = follow("app.log")
    append(log, lines(0, 200))
    rest(files)
    files.files.close()
    tick()
    shutil.copy(log, f"{log}.1")
    log.unlink()
    start_again(files)
    assert files.text.decode() == lines(0, 200)
    assert of_sources(files) == []
    assert len(said_of_copies(files)) == 1


def test_less_than_1_kib_is_not_enough(follow: Follow, log: Path) -> None:
    files = follow("app.log")
    append(log, lines(0, 146))
    rest(files)
    files.files.close()
    append(log, lines(146, 300))
    shutil.copy(log, f"{log}.1")
    log.unlink()
    start_again(files)
    assert files.text.decode() == lines(0, 146)
    (unseen,) = of_sources(files)
    assert unseen.position == 1022


@pytest.mark.parametrize("change", ["beginning", "tail", "less"])
def test_a_file_with_another_content_is_not_taken(
    files: JournalledFiles, log: Path, change: str
) -> None:
    text = bytearray(log.read_bytes())
    if change == "less":
        del text[1399:]
    else:
        text[0 if change == "beginning" else 1390] ^= 1
    Path(f"{log}.1").write_bytes(text)
    log.unlink()
    start_again(files)
    assert files.text.decode() == lines(0, 200)
    (unseen,) = of_sources(files)
    assert unseen.position == 1400


def test_what_another_source_has_read_is_not_taken(follow: Follow, log: Path) -> None:
    """The same report twice: the first one was renamed and is over, and its file is there."""
    files = follow("app.log")
    append(log, lines(0, 300))
    rest(files)
    log.rename(f"{log}.1")
    settle(files)
    append(log, lines(0, 200))
    rest(files)
    rest(files)
    files.files.close()
    log.unlink()
    os.utime(f"{log}.1")
    start_again(files)
    assert files.text.decode() == lines(0, 300) + lines(0, 200)
    assert [each.position for each in of_sources(files)] == [1400]


def test_a_copy_that_an_input_means_is_a_file_of_its_own(tmp_path: Path, log: Path) -> None:
    files = JournalledFiles(
        FileInput("live", "t", (str(log),)), FileInput("old", "u", (f"{log}.*",))
    )
    append(log, lines(0, 200))
    rest(files)
    files.files.close()
    append(log, lines(200, 300))
    tick()
    shutil.copy(log, f"{log}.1")
    log.unlink()
    start_again(files)
    assert files.text.decode() == lines(0, 200) + lines(0, 300)
    assert [each.position for each in of_sources(files)] == [1400]
    files.close()


def test_two_inputs_go_on_in_one_copy(log: Path) -> None:
    files = JournalledFiles(FileInput("one", "t", (str(log),)), FileInput("two", "u", (str(log),)))
    append(log, lines(0, 200))
    rest(files)
    files.files.close()
    append(log, lines(200, 300))
    shutil.copy(log, f"{log}.1")
    log.unlink()
    start_again(files)
    assert files.text.decode() == 2 * lines(0, 200) + 2 * lines(200, 300)
    assert of_sources(files) == []
    files.close()


def test_an_archive_of_the_file_goes_before_a_copy(files: JournalledFiles, log: Path) -> None:
    """A copy was made and the file written to, renamed and compressed: its end was seen."""
    shutil.copy(log, f"{log}.bak")
    append(log, lines(300, 400))
    archive = Path(f"{log}.1.gz")
    archive.write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    start_again(files)
    assert files.text.decode() == lines(0, 400)
    assert said_of_copies(files) == []
    assert list(files.of(EndUnseen)) == []


def test_a_copy_that_was_compressed(files: JournalledFiles, log: Path) -> None:
    Path(f"{log}.1.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    start_again(files)
    assert files.text.decode() == lines(0, 300)
    assert of_sources(files) == []


def test_a_copy_that_was_rotated(files: JournalledFiles, log: Path) -> None:
    """The newest copy is of what the file had after that."""
    shutil.copy(log, f"{log}.2")
    tick()
    Path(f"{log}.1").write_text(lines(300, 900))
    log.unlink()
    start_again(files)
    assert files.text.decode() == lines(0, 300)
    assert len(said_of_copies(files)) == 1


def test_of_several_copies_the_last_one_is_taken(files: JournalledFiles, log: Path) -> None:
    for number in (3, 2, 1):
        shutil.copy(log, f"{log}.{number}")
        append(log, lines(600 - 100 * number, 700 - 100 * number))
        tick()
    log.unlink()
    start_again(files)
    assert files.text.decode() == lines(0, 500)
    (reason,) = said_of_copies(files)
    assert "app.log.1 has it" in reason


def test_of_two_that_begin_alike_neither_is_taken(follow: Follow, tmp_path: Path) -> None:
    """Either copy may be one of either file, and lines may be read twice."""
    files = follow("*.log")
    logs = [tmp_path / f"{name}.log" for name in ("app", "apple")]
    for each in logs:
        append(each, lines(0, 200))
    for _ in range(3):
        settle(files)
    files.files.close()
    for each in logs:
        append(each, lines(200, 300))
        shutil.copy(each, f"{each}.1")
        each.unlink()
    start_again(files)
    assert files.text.decode() == 2 * lines(0, 200)
    assert [each.position for each in of_sources(files)] == [1400, 1400]


def test_a_copy_may_be_one_of_the_same_that_was_written_again(follow: Follow, log: Path) -> None:
    files = follow("*.log")
    append(log, lines(0, 200))
    rest(files)
    files.files.close()
    log.unlink()
    tick()
    again = log.with_name("again.log")
    append(again, lines(0, 300))
    shutil.copy(again, f"{log}.1")
    start_again(files)
    assert files.text.decode() == lines(0, 200) + lines(0, 300)
    assert [each.position for each in of_sources(files)] == [1400]


def test_what_was_known_and_is_not_in_the_copy_is_lost(follow: Follow, log: Path) -> None:
    files = follow("app.log")
    append(log, lines(0, 200))
    rest(files)
    append(log, lines(200, 250))
    shutil.copy(log, f"{log}.1")
    append(log, lines(250, 300))
    files.look()
    (known,) = files.files.following()
    files.journal[known.source] = files.files.snapshot_of(known)
    files.files.close()
    tick()
    os.utime(f"{log}.1")
    log.unlink()
    start_again(files)
    assert files.text.decode() == lines(0, 250)
    assert files.lost == 350
    assert len(said_of_copies(files)) == 1


@pytest.fixture
def meant(follow: Follow, log: Path) -> JournalledFiles:
    """As `files`, but the names of copies are meant."""
    started = follow("app.log*")
    append(log, lines(0, 200))
    rest(started)
    started.files.close()
    append(log, lines(200, 300))
    tick()
    return started


def test_a_copy_with_its_times_cannot_have_been_written_anew(
    meant: JournalledFiles, log: Path
) -> None:
    for number in (2, 1):
        shutil.copy2(log, f"{log}.{number}")
        append(log, "gone\n")
        tick()
    Path(f"{log}.2").unlink()
    log.unlink()
    start_again(meant)
    assert meant.text.decode() == lines(0, 300) + "gone\n"
    assert len({source for source, _, _ in meant.read}) == 1
    assert of_sources(meant) == []
    assert len(said_of_copies(meant)) == 1
    meant.restart()
    assert settle(meant) == b""


def test_a_file_that_an_input_means_may_have_been_written_anew(
    meant: JournalledFiles, log: Path
) -> None:
    """A line is rather read twice than not at all."""
    shutil.copy(log, f"{log}.1")
    log.unlink()
    start_again(meant)
    assert meant.text.decode() == lines(0, 200) + lines(0, 300)
    assert [each.position for each in of_sources(meant)] == [1400]


def test_so_may_one_of_which_there_is_a_copy(meant: JournalledFiles, log: Path) -> None:
    text = log.read_text()
    log.unlink()
    tick()
    append(log, text)
    tick()
    shutil.copy2(log, f"{log}.1")
    start_again(meant)
    assert meant.text.decode() == lines(0, 200) + 2 * lines(0, 300)
    assert [each.position for each in of_sources(meant)] == [1400]


def test_an_archive_goes_before_a_copy_with_its_times(meant: JournalledFiles, log: Path) -> None:
    shutil.copy2(log, f"{log}.1")
    append(log, lines(300, 400))
    Path(f"{log}.2.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    start_again(meant)
    first = meant.read[0][0]
    text = b"".join(data for source, _, data in meant.read if source == first)
    assert text.decode() == lines(0, 400)
    assert of_sources(meant) == []


@pytest.mark.parametrize("copies", [1, 2])
def test_what_was_copied_and_emptied_again_between_two_looks(
    follow: Follow, log: Path, copies: int
) -> None:
    """The second copy has what nobody has read, under a name that no pattern means."""
    files = follow("app.log")
    append(log, lines(0, 200))
    rest(files)
    for number in range(copies):
        append(log, lines(100 * number, 100 * number + 100))
        tick()
        if number:
            Path(f"{log}.1").rename(f"{log}.2")
        shutil.copy2(log, f"{log}.1")
        os.truncate(log, 0)
    append(log, "new\n")
    settle(files)
    expected = lines(0, 200) + lines(0, 100) + "new\n"
    assert sorted(files.text.decode().split()) == sorted(expected.split())
    said = [each.reason for each in of_folders(files)]
    assert len(said) == copies - 1
    assert all(each.endswith("may have been emptied: app.log") for each in said)

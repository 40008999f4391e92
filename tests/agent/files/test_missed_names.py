"""Names that come and go between two looks."""

import bz2
import gzip
import os
import shutil
import time
from pathlib import Path

import pytest

from agent.files.happenings import Deleted, Renamed, Unpacked
from agent.history.blind_times import Traces
from tests.agent.files.journalled_files import (
    Follow,
    append,
    of_folders,
    of_sources,
    rest,
    settle,
    tick,
)


def test_a_name_that_comes_and_goes_between_two_looks(follow: Follow, tmp_path: Path) -> None:
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    rest(files)
    append(tmp_path / "app.log.9", "nobody has seen this\n")
    (tmp_path / "app.log.9").unlink()
    append(tmp_path / "other.txt", "not meant\n")
    (tmp_path / "other.txt").unlink()
    files.turn()
    (said,) = files.unwatched
    assert said.reason == "came and went between two looks: app.log.9"
    assert (said.path, said.traces) == (str(tmp_path), Traces.CHANGED)


def test_many_names_that_come_and_go_between_two_looks(follow: Follow, tmp_path: Path) -> None:
    """They are one statement for each folder."""
    (tmp_path / "a").mkdir()
    files = follow("*", "a/*")
    rest(files)
    for number in range(50):
        (tmp_path / f"{number:02}").touch()
        (tmp_path / f"{number:02}").unlink()
    (tmp_path / "a" / "app.log").touch()
    (tmp_path / "a" / "app.log").unlink()
    files.turn()
    above, below = files.unwatched
    names = "00, 01, 02, 03, 04 and 45 others"
    assert above.reason == f"came and went between two looks: {names}"
    assert below.reason == "came and went between two looks: app.log"
    assert (above.path, below.path) == (str(tmp_path), str(tmp_path / "a"))


def test_a_new_file_that_loses_the_name_that_is_meant_between_two_looks(
    follow: Follow, tmp_path: Path
) -> None:
    """It is there, under a name that no pattern means, so nobody reads it."""
    files, log = follow("app.log"), tmp_path / "app.log"
    append(log, "one\n")
    rest(files)
    log.rename(tmp_path / "app.log.1")  # this one is open
    append(log, "nobody has seen this\n")
    (tmp_path / "app.log.1").rename(tmp_path / "app.log.2")
    log.rename(tmp_path / "app.log.1")
    append(log, "three\n")
    settle(files)
    assert files.text == b"one\nthree\n"
    (said,) = files.unwatched
    assert said.reason == "came and went between two looks: app.log"
    assert (said.path, said.traces) == (str(tmp_path), Traces.CHANGED)


def test_a_link_that_is_switched_twice_between_two_looks(follow: Follow, tmp_path: Path) -> None:
    """As it is done so that it never lacks: made under another name, and renamed over it."""
    files, link = follow("app.log"), tmp_path / "app.log"
    store = tmp_path / "store"
    store.mkdir()

    def switch(number: int) -> None:
        append(store / f"{number}", f"{number}\n")
        (tmp_path / "new").symlink_to(store / f"{number}")
        (tmp_path / "new").rename(link)

    switch(1)
    rest(files)
    switch(2)
    switch(3)
    settle(files)
    assert files.text == b"1\n3\n"
    (said,) = files.unwatched
    assert said.reason == "came and went between two looks: app.log"


def copied_and_compressed(log: Path, content: bytes | None = None) -> Path:
    """As a rotator does with a file that is not to be renamed; the copy, which is gone."""
    copy = log.with_name("app.log.1")
    shutil.copy2(log, copy)
    os.truncate(log, 0)
    archive = log.with_name("app.log.1.gz")
    archive.write_bytes(gzip.compress(copy.read_bytes() if content is None else content))
    copy.unlink()
    return copy


def test_a_copy_of_which_the_archive_is_read(follow: Follow, tmp_path: Path) -> None:
    """Nothing of it is missed."""
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    rest(files)
    append(log, "two\n")
    copied_and_compressed(log)
    append(log, "three\n")
    settle(files)
    assert sorted(files.text.split()) == [b"one", b"three", b"two"]
    assert len(list(files.of(Unpacked))) == 1
    assert files.unwatched == []


@pytest.mark.not_quick("packs and unpacks megabytes")
@pytest.mark.parametrize("is_its", [False, True])
def test_a_copy_of_which_the_archive_is_sought_for_long(
    follow: Follow, tmp_path: Path, is_its: bool
) -> None:
    """It takes several looks to find out whether anything is missed: what is random and packed so
    well is unpacked slowly."""
    files, log = follow(), tmp_path / "app.log"
    append(log, os.urandom(4_000_000).hex() + "\n")
    rest(files)
    while files.read_some():
        pass
    content = log.read_bytes() if is_its else log.read_bytes()[:-9] + b"different"
    copy = tmp_path / "app.log.1"
    copy.touch()
    os.truncate(log, 0)
    (tmp_path / "app.log.1.bz2").write_bytes(bz2.compress(content))
    copy.unlink()
    files.look()
    assert files.files.undecided
    assert files.unwatched == []
    while files.files.undecided:
        files.look()
    said = [each.reason for each in of_folders(files)]
    assert said == ([] if is_its else ["came and went between two looks: app.log.1"])
    assert len(of_sources(files)) == (not is_its)


@pytest.mark.parametrize("content", [b"another\n" * 1000, b"x"])
def test_a_copy_of_which_the_archive_is_another_files(
    follow: Follow, tmp_path: Path, content: bytes
) -> None:
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n" * 500)
    rest(files)
    copied_and_compressed(log, content)
    settle(files)
    (said,) = of_folders(files)
    assert said.reason == "came and went between two looks: app.log.1"
    assert len(of_sources(files)) == 1


def test_two_files_of_the_name_of_which_an_archive_is_read(follow: Follow, tmp_path: Path) -> None:
    """It is the last one that was compressed."""
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    rest(files)
    (tmp_path / "app.log.1").write_text("nobody has seen this\n")
    (tmp_path / "app.log.1").unlink()
    copied_and_compressed(log)
    settle(files)
    assert len(list(files.of(Unpacked))) == 1
    (said,) = files.unwatched
    assert said.reason == "came and went between two looks: app.log.1"


def test_a_name_that_comes_and_goes_while_an_archive_is_read(
    follow: Follow, tmp_path: Path
) -> None:
    """The archive is not that of what had the name since."""
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    rest(files)
    append(log, "two\n")
    copied_and_compressed(log)
    files.look()
    files.look()
    (tmp_path / "app.log.1").write_text("nobody has seen this\n")
    (tmp_path / "app.log.1").unlink()
    settle(files)
    assert files.text == b"one\ntwo\n"
    (said,) = files.unwatched
    assert said.reason == "came and went between two looks: app.log.1"


def test_a_chain_of_renames_between_two_looks_hides_nothing(follow: Follow, tmp_path: Path) -> None:
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    rest(files)
    for _ in range(3):
        for number in range(5, 0, -1):
            if (tmp_path / f"app.log.{number}").exists():
                (tmp_path / f"app.log.{number}").rename(tmp_path / f"app.log.{number + 1}")
        log.rename(tmp_path / "app.log.1")
        append(log, f"{time.time()}\n")
    settle(files)
    assert len(files.read) == 4
    assert files.unwatched == []
    assert len(list(files.of(Renamed))) >= 1
    assert list(files.of(Deleted)) == []


def test_a_frozen_agent_without_notice_of_changes(follow: Follow, tmp_path: Path) -> None:
    """The folders' times tell what the kernel did not."""
    slept = [0.0]
    files = follow(events=False, boot=lambda: time.monotonic() + slept[0])
    append(tmp_path / "app.log", "one\n")
    for _ in range(3):
        tick()
        files.turn(6.0)
    slept[0] += 60.0
    files.turn(6.0)
    assert [each.traces for each in files.unwatched] == [Traces.UNCHANGED]
    slept[0] += 60.0
    append(tmp_path / "app.log.9", "nobody has seen this\n")
    (tmp_path / "app.log.9").unlink()
    files.turn(6.0)
    assert [each.traces for each in files.unwatched] == [Traces.UNCHANGED, Traces.CHANGED]
    assert "stood still for 60 s" in files.unwatched[-1].reason


@pytest.mark.not_quick("very many files")
def test_when_the_kernel_could_not_keep_all_that_happened(follow: Follow, tmp_path: Path) -> None:
    files = follow()
    append(tmp_path / "app.log", "one\n")
    rest(files)
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    (tmp_path / "app.log.9").touch()
    for number in range(most // 2 + 2):
        (tmp_path / f"app.log.{9 + number % 2}").rename(tmp_path / f"app.log.{10 - number % 2}")
    files.turn()
    assert Traces.CHANGED in {each.traces for each in files.unwatched}
    assert "more happened at once" in files.unwatched[0].reason


def test_a_new_file_may_have_been_emptied_while_the_agent_was_frozen(
    follow: Follow, tmp_path: Path
) -> None:
    """It leaves no trace, and neither does one that was empty before; one that was moved in, or is
    older, says nothing."""
    frozen = [0.0]
    files = follow("*.log", boot=lambda: time.monotonic() + frozen[0])
    log, later = tmp_path / "app.log", time.time() + 60.0
    append(log, "one\n")
    append(tmp_path / "older.log", "another\n")
    (tmp_path / "empty.log").touch()
    rest(files)
    log.rename(tmp_path / "app.log.1")
    append(log, "nobody has seen this\n")
    append(tmp_path / "new", "all of it\n")
    log.write_text("two\n")
    append(tmp_path / "older.log", "two\n")
    append(tmp_path / "empty.log", "two\n")
    for path in (log, tmp_path / "new", tmp_path / "empty.log"):
        os.utime(path, (later, later))  # so long they were written to
    frozen[0] = 6.0
    (tmp_path / "new").rename(tmp_path / "moved.log")
    os.link(tmp_path / "older.log", tmp_path / "linked.log")
    settle(files)
    (said,) = files.unwatched
    assert (said.path, said.source, said.traces) == (str(tmp_path), "", Traces.CHANGED)
    assert said.reason.startswith("nobody looked for 6 s; ")
    assert said.reason.endswith("may have been emptied: app.log, empty.log")


@pytest.mark.parametrize(
    ("seconds", "traces"), [(0.5, []), (4.0, [Traces.BRIEF]), (6.0, [Traces.CHANGED])]
)
def test_a_new_file_may_have_been_emptied_soon_if_nobody_looked_for_long(
    follow: Follow, tmp_path: Path, seconds: float, traces: list[Traces]
) -> None:
    """An agent that is started again at once is away for a moment, and rotations go on meanwhile:
    that is another trace. What has no later time than that of its making was not emptied."""
    frozen = [0.0]
    files = follow("*.log", boot=lambda: time.monotonic() + frozen[0])
    rest(files)
    (tmp_path / "empty.log").touch()
    append(tmp_path / "app.log", "nobody has seen this\n")
    time.sleep(0.05)
    (tmp_path / "app.log").write_text("two\n")
    frozen[0] = seconds
    settle(files)
    assert [each.traces for each in files.unwatched] == traces
    assert all(each.reason.endswith("emptied: app.log") for each in files.unwatched)


def test_a_new_file_whose_name_was_that_of_one_that_is_held_open(
    follow: Follow, tmp_path: Path
) -> None:
    """The folder is listed later: until then the one that was deleted seems to have that name."""
    files, log = follow("app.log"), tmp_path / "app.log"
    append(log, "one\n")
    rest(files)
    log.unlink()
    rest(files)
    files.files._next_listing = files.now + 1  # as after a folder that took long
    append(log, "nobody has seen this\n")
    files.turn()
    log.unlink()
    settle(files)
    (said,) = files.unwatched
    assert said.reason == "came and went between two looks: app.log"


def test_very_many_new_files_that_go_before_they_are_listed(follow: Follow, tmp_path: Path) -> None:
    files = follow("*.log", boot=lambda: 0.0)  # however long it takes, it does not stand still
    rest(files)
    files.files._next_listing = files.now + 1  # as after a folder that took long
    logs = [tmp_path / f"{number:05}.log" for number in range(1_500)]
    for log in logs:
        log.touch()
    files.turn()
    for log in logs:
        log.unlink()
    settle(files)
    assert any("00000.log" in each.reason for each in files.unwatched)


@pytest.mark.parametrize("lies_there", [False, True])
def test_a_finished_file_that_has_a_name_that_is_meant_between_two_looks_only(
    follow: Follow, tmp_path: Path, lies_there: bool
) -> None:
    """It was there before, under a name that nobody looked at."""
    files, log = follow("app.log"), tmp_path / "app.log"
    for name in ("new", "newer"):
        append(tmp_path / name, f"{name}\n")
    rest(files)
    (tmp_path / "new").rename(log)
    if lies_there:
        log.rename(tmp_path / "app.log.1")
    (tmp_path / "newer").rename(log)
    settle(files)
    assert files.text == b"newer\n"
    (said,) = files.unwatched
    assert said.reason == "came and went between two looks: app.log"


def test_finished_files_that_are_renamed_into_place(follow: Follow, tmp_path: Path) -> None:
    files = follow("*.log")
    rest(files)
    for number in range(5):
        append(tmp_path / f"{number}.tmp", f"{number}\n")
        if number % 2:
            files.turn()
        (tmp_path / f"{number}.tmp").rename(tmp_path / f"{number}.log")
        files.turn()
    settle(files)
    assert len(files.read) == 5
    assert files.unwatched == []


@pytest.mark.parametrize("copy", ["app.log.1", "app.1.log", "app.log-today"])
def test_a_new_file_was_copied_and_emptied_before_anything_of_it_was_read(
    follow: Follow, tmp_path: Path, copy: str
) -> None:
    """However soon after it was made; one that still begins as its copy does has lost nothing."""
    frozen = [0.0]
    files = follow("app.log", "other.log", boot=lambda: time.monotonic() + frozen[0])
    copy = copy.replace("today", time.strftime("%Y%m%d"))
    rest(files)
    for name in ("app", "other"):
        append(tmp_path / f"{name}.log", "nobody has seen this\n")
        tick()
        shutil.copy(tmp_path / f"{name}.log", tmp_path / copy.replace("app", name))
    (tmp_path / "app.log").write_text("one\n")
    append(tmp_path / "other.log", "two\n")
    frozen[0] = 1.5
    settle(files)
    assert sorted(files.text.splitlines()) == [b"nobody has seen this", b"one", b"two"]
    (said,) = files.unwatched
    assert (said.path, said.traces) == (str(tmp_path), Traces.CHANGED)
    assert said.reason.endswith("may have been emptied: app.log")

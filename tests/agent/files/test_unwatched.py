"""What nobody saw is said: ends of files, and times in which names came and went."""

import gzip
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agent.blind_times import Traces, Unwatched
from agent.files.happenings import Deleted, Ended, EndUnseen, Lost, Renamed
from tests.agent.files.journalled_files import Follow, JournalledFiles, append


def settle(files: JournalledFiles) -> bytes:
    return b"".join(files.turn(seconds) for seconds in (0.05, 6.0, 3.0, 6.0, 16.0, 70.0, 70.0))


def tick() -> None:
    """Until the clock of the file system has moved on, and a look at a folder is sure."""
    time.sleep(0.03)


def rest(files: JournalledFiles) -> None:
    """Everything was read, and every folder looked at for sure."""
    for _ in range(3):
        tick()
        files.turn()


def of_folders(files: JournalledFiles) -> list[Unwatched]:
    return [each for each in files.unwatched if not each.source]


def of_sources(files: JournalledFiles) -> list[Unwatched]:
    return [each for each in files.unwatched if each.source]


# The end of a file


def test_a_file_that_grew_and_went_while_nobody_looked(follow: Follow, tmp_path: Path) -> None:
    files, log = follow(), tmp_path / "app.log"
    append(log, "seen\n")
    rest(files)
    seen = time.time() * 1000
    files.files.close()
    append(log, "nobody has seen this\n")
    log.unlink()
    files.restart_closed()
    settle(files)
    (unseen,) = of_sources(files)
    assert (unseen.position, unseen.traces) == (5, Traces.VANISHED)
    assert unseen.from_millis <= seen <= unseen.to_millis
    assert unseen.reason == "vanished while nobody watched; unknown beyond byte 5"
    assert list(files.of(Ended)) == []
    files.restart()
    settle(files)
    assert len(of_sources(files)) == 1


@pytest.mark.parametrize("damaged", [False, True])
def test_a_file_that_went_before_it_was_read(follow: Follow, tmp_path: Path, damaged: bool) -> None:
    """It is lost; unless the journal was damaged, and may have forgotten that it was shipped."""
    files, log = follow(), tmp_path / "app.log"
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
    files.damaged = damaged
    files.restart_closed()
    settle(files)
    assert files.lost == (0 if damaged else 8)
    (unseen,) = of_sources(files)
    assert unseen.position == (0 if damaged else 8)
    (folder,) = of_folders(files)
    for each in (unseen, folder):
        assert (each.from_millis <= caught_up) is damaged
    assert ("the journal was damaged" in unseen.reason) is damaged


def test_an_archive_that_has_the_inode_of_what_is_in_it(follow: Follow, tmp_path: Path) -> None:
    """As file systems give it that use the lowest one that is free."""
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    rest(files)
    files.files.close()
    whole = log.read_bytes() + b"two\n"
    log.write_bytes(gzip.compress(whole))
    log.rename(tmp_path / "app.log.1.gz")
    append(log, "three\n")
    files.restart_closed()
    settle(files)
    assert sorted(files.text.split()) == [b"one", b"three", b"two"]
    assert of_sources(files) == []


def test_a_file_that_was_deleted_while_it_had_a_handle_is_finished(
    follow: Follow, tmp_path: Path
) -> None:
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    rest(files)
    append(log, "two\n")
    log.unlink()
    settle(files)
    assert files.text == b"one\ntwo\n"
    assert len(list(files.of(Ended))) == 1
    assert files.unwatched == []


@pytest.mark.parametrize("grown", [False, True])
def test_a_file_without_a_handle_that_is_deleted(
    follow: Follow, tmp_path: Path, grown: bool
) -> None:
    """The kernel tells whether it was written to since it was looked at. If it was not, its end
    was seen."""
    files = follow("*.log", open_files=2)
    logs = [tmp_path / f"{number}.log" for number in range(6)]
    for number, log in enumerate(logs):
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


def test_behind_a_link_that_was_switched_while_nobody_looked(
    follow: Follow, tmp_path: Path
) -> None:
    """The file that it led to still lies there, under a name that no pattern means."""
    (tmp_path / "pods").mkdir()
    old, new = tmp_path / "pods" / "0.log", tmp_path / "pods" / "1.log"
    append(old, "one\n")
    link = tmp_path / "current.log"
    link.symlink_to(old)
    files = follow("current.log")
    rest(files)
    files.files.close()
    append(old, "two\n")
    append(new, "three\n")
    link.unlink()
    link.symlink_to(new)
    files.restart_closed()
    settle(files)
    assert sorted(data for _, _, data in files.read) == [b"one\n", b"three\n", b"two\n"]
    assert len({source for source, _, _ in files.read}) == 2
    assert of_sources(files) == []
    assert len(list(files.of(Ended))) == 1
    files.restart()
    assert settle(files) == b""


@pytest.mark.parametrize("open_files", [100, 1])
def test_behind_a_link_that_is_switched(follow: Follow, tmp_path: Path, open_files: int) -> None:
    (tmp_path / "pods").mkdir()
    old, new = tmp_path / "pods" / "0.log", tmp_path / "pods" / "1.log"
    append(old, "one\n")
    link = tmp_path / "current.log"
    link.symlink_to(old)
    files = follow("*.log", open_files=open_files)
    for number in range(4):
        append(tmp_path / f"other{number}.log", f"other {number}\n")
    rest(files)
    rest(files)
    append(old, "two\n")
    append(new, "three\n")
    link.unlink()
    link.symlink_to(new)
    settle(files)
    assert {b"two\n", b"three\n"} <= {data for _, _, data in files.read}
    assert of_sources(files) == []


def test_truncated_with_a_copy_nothing_is_unknown(follow: Follow, tmp_path: Path) -> None:
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    rest(files)
    append(log, "two\n")
    shutil.copy(log, tmp_path / "app.log.1")
    os.truncate(log, 0)
    append(log, "three\n")
    settle(files)
    assert files.lost == 0
    assert files.unwatched == []


def test_truncated_while_the_agent_was_frozen(follow: Follow, tmp_path: Path) -> None:
    """What was known to be there and was not read is lost, to the byte; what was written after the
    last look nobody knows."""
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    rest(files)
    append(log, "two\n")
    files.look()
    before = time.time() * 1000
    tick()
    append(log, "never seen\n")
    tick()
    os.truncate(log, 0)
    append(log, "new\n")
    settle(files)
    (lost,) = files.of(Lost)
    assert (lost.position, lost.bytes) == (4, 4)
    (unseen,) = files.unwatched
    assert (unseen.position, unseen.traces) == (8, Traces.TRUNCATED)
    assert unseen.from_millis <= before + 1 < unseen.to_millis
    assert files.text == b"one\nnew\n"


def test_truncated_while_nobody_looked(follow: Follow, tmp_path: Path) -> None:
    files, log = follow(), tmp_path / "app.log"
    append(log, "one\n")
    rest(files)
    files.files.close()
    append(log, "never seen\n")
    log.write_text("new\n")
    files.restart_closed()
    settle(files)
    (unseen,) = of_sources(files)
    assert (unseen.position, unseen.traces) == (4, Traces.TRUNCATED)
    assert files.text == b"one\nnew\n"


# Blind times


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
    assert "missing: app.log.3" in said.reason


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


def test_a_new_file_may_have_been_emptied_while_the_agent_was_frozen(
    follow: Follow, tmp_path: Path
) -> None:
    """It leaves no trace; one that was written to in a moment, was moved in, or is older, says
    nothing."""
    files, log = follow("*.log"), tmp_path / "app.log"
    append(log, "one\n")
    append(tmp_path / "older.log", "one\n")
    rest(files)
    log.rename(tmp_path / "app.log.1")
    append(log, "nobody has seen this\n")
    append(tmp_path / "brief.log", "all of it\n")
    append(tmp_path / "new", "all of it\n")
    time.sleep(2.1)
    log.write_text("two\n")
    append(tmp_path / "older.log", "two\n")
    append(tmp_path / "new", "and more\n")
    (tmp_path / "new").rename(tmp_path / "moved.log")
    os.link(tmp_path / "older.log", tmp_path / "linked.log")
    settle(files)
    (said,) = files.unwatched
    assert (said.path, said.source, said.traces) == (str(tmp_path), "", Traces.CHANGED)
    assert said.reason.startswith("the agent stood still for 2 s; ")
    assert said.reason.endswith("may have been emptied: app.log")


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
    files = follow("*.log")
    rest(files)
    files.files._next_listing = files.now + 1  # as after a folder that took long
    logs = [tmp_path / f"{number:05}.log" for number in range(1_500)]
    for log in logs:
        log.touch()
    files.turn()
    for log in logs:
        log.unlink()
    settle(files)
    assert "00000.log" in files.unwatched[0].reason


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

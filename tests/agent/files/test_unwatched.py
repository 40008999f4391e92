"""What nobody saw of the ends of files is said."""

import gzip
import os
import shutil
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.files.happenings import Ended, EndUnseen, Lost
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


@pytest.mark.parametrize(("damaged", "torn"), [(False, False), (True, False), (False, True)])
def test_a_file_that_went_before_it_was_read(
    follow: Follow, tmp_path: Path, damaged: bool, torn: bool
) -> None:
    """It is lost; unless the journal was damaged, or its last entry torn, and may have forgotten
    that it was shipped."""
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


def test_a_file_that_was_there_may_have_been_another_source(follow: Follow, tmp_path: Path) -> None:
    """If the journal was damaged, and does not know it. What is made or truncated later was not;
    nor what was empty."""
    files = follow("*.log")
    known, forgotten, empty = (tmp_path / f"{each}.log" for each in ("known", "forgotten", "empty"))
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
    later = tmp_path / "later.log"
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

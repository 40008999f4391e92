"""What an agent had open outlives it: kept by the store of `penstock up`, handed to the next."""

import gzip
import os
import shutil
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from agent.file_inputs import FileInput
from agent.files.happenings import Appeared, Deleted, Ended, Truncated
from agent.history.blind_times import Traces
from penstock.up.descriptor_store import ProgramDescriptors
from tests.agent.files.journalled_files import (
    JournalledFiles,
    LogFolder,
    append,
    kept_files,
    of_folders,
    rest,
    turns,
    written_at_once,
    written_for,
)

QUEUED = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


def start_again(files: JournalledFiles, count: int = 6) -> None:
    files.restart_closed()
    turns(files, count)


def forget(store: ProgramDescriptors, name: str) -> None:
    os.close(store._kept.pop(name))


def test_renamed_compressed_deleted_and_made_anew(
    log: Path, files: JournalledFiles, store: ProgramDescriptors
) -> None:
    append(log, "one\n")
    turns(files)
    assert files.text == b"one\n"
    files.crash()
    append(log, "two\n")
    rotated = log.rename(f"{log}.1")
    Path(f"{log}.1.gz").write_bytes(gzip.compress(rotated.read_bytes()))
    rotated.unlink()
    append(log, "three\n")
    start_again(files)
    assert sorted(files.text.split()) == [b"one", b"three", b"two"]
    assert files.lost == 0
    assert len({source for source, _, _ in files.read}) == 2
    assert len(list(files.of(Deleted))) == 1
    turns(files, 80)
    (ended,) = files.of(Ended)
    assert (ended.followed.progress.position, ended.followed.unread) == (8, 0)
    assert len(kept_files(store)) == 1, "what is over takes no room on the disk"


@pytest.mark.parametrize("is_meant", [False, True])
def test_a_new_file_that_was_renamed_while_no_agent_ran(
    logs: LogFolder, store: ProgramDescriptors, is_meant: bool
) -> None:
    """It is still there; who looks only for the name that it had does not find it."""
    files, log = logs.follow("app.log*" if is_meant else "app.log", store=store), logs.log
    append(log, "one\n")
    rest(files, 0.3)
    files.crash()
    log.rename(logs / "app.log.2")
    append(log, "two\n")
    written_at_once(log)
    log.rename(logs / "app.log.1")
    append(log, "three\n")
    written_at_once(log)
    start_again(files)
    wanted = [b"one", b"three", b"two"] if is_meant else [b"one", b"three"]
    assert sorted(files.text.split()) == wanted
    assert [each.traces for each in files.unwatched] == ([] if is_meant else [Traces.CHANGED])


def test_what_comes_and_goes_before_the_first_look(log: Path, files: JournalledFiles) -> None:
    """The queue has been taken over, and no folder was listed yet."""
    append(log, "one\n")
    rest(files, 0.3)
    files.restart()
    log.rename(f"{log}.1")
    append(log, "nobody has seen this\n")
    log.unlink()
    turns(files)
    assert [each.traces for each in files.unwatched] == [Traces.CHANGED]


@pytest.mark.parametrize("text", ["two\n", ""])
@pytest.mark.parametrize("seconds", [3.0, 3600.0])
def test_a_new_file_may_have_been_emptied_while_no_agent_ran(
    log: Path, files: JournalledFiles, text: str, seconds: float
) -> None:
    """It leaves no trace: the file is as it would be if it had only grown, or never had. That is
    all that the history of names leaves open, so it is said without a demand, however long."""
    append(log, "one\n")
    rest(files, 0.3)
    files.crash()
    log.rename(f"{log}.1")
    append(log, "nobody has seen this\n")
    log.write_text(text)
    written_for(60.0, log)
    files.away += seconds
    start_again(files)
    (said,) = of_folders(files)
    assert said.traces is Traces.BRIEF
    assert said.reason.startswith(f"nobody looked for {seconds:.0f} s; ")


@pytest.mark.parametrize("pattern", ["app.log*", "app.log"])
@pytest.mark.parametrize("seconds", [4.0, 60.0])
def test_a_file_may_have_been_emptied_again_after_it_was_copied_and_truncated(
    logs: LogFolder, store: ProgramDescriptors, pattern: str, seconds: float
) -> None:
    """What was read of it is in the copy; what came after that, nobody knows."""
    files, log, copy = logs.follow(pattern, store=store), logs.log, logs / "app.log.1"
    append(log, "one\n" * 500)
    rest(files, 0.3)
    files.crash()
    copy.write_bytes(log.read_bytes())
    written_at_once(copy)
    log.write_text("nobody has seen this\n")
    log.write_text("two\n")
    written_for(seconds, log)
    start_again(files)
    assert files.text == b"one\n" * 500 + b"two\n"
    said = files.unwatched[-1]
    assert (said.traces, said.path, said.source) == (Traces.BRIEF, str(logs.path), "")
    assert said.reason.endswith("may have been emptied: app.log")


@pytest.mark.parametrize("is_emptied", [True, False])
def test_a_new_file_was_copied_while_no_agent_ran(
    log: Path, files: JournalledFiles, is_emptied: bool
) -> None:
    """And emptied within a moment, or not: the copy tells."""
    turns(files)
    files.crash()
    files.away += 2.0
    append(log, "nobody has seen this\n")
    time.sleep(0.03)
    shutil.copy(log, f"{log}.1")
    if is_emptied:
        log.write_text("two\n")
    start_again(files)
    assert files.text == (b"two\n" if is_emptied else b"nobody has seen this\n")
    said = [each for each in files.unwatched if each.traces is Traces.CHANGED]
    assert len(said) == is_emptied
    assert all(each.reason.endswith("may have been emptied: app.log") for each in said)


@pytest.mark.parametrize("where", ["new", "elsewhere/new"])
def test_a_finished_file_was_moved_there_while_no_agent_ran(
    logs: LogFolder, files: JournalledFiles, where: str
) -> None:
    """It was written for longer than a moment, where nobody looks."""
    (logs / "elsewhere").mkdir()
    append(logs.log, "one\n")
    rest(files, 0.3)
    files.crash()
    append(logs / where, "two\nthree\n")
    written_for(60.0, logs / where)
    logs.log.rename(logs / "app.log.1")
    (logs / where).rename(logs.log)
    files.away += 60.0
    start_again(files)
    assert files.text == b"one\ntwo\nthree\n"
    assert files.unwatched == []


@pytest.mark.parametrize("is_emptied", [True, False])
def test_a_file_that_was_begun_while_no_agent_ran_may_have_been_emptied_however_short_that_was(
    log: Path, files: JournalledFiles, is_emptied: bool
) -> None:
    append(log, "one\n")
    turns(files)
    files.crash()
    log.unlink()
    append(log, "two\n")
    if is_emptied:
        os.truncate(log, 0)
    start_again(files)
    (said,) = files.unwatched
    assert said.traces is Traces.BRIEF
    assert said.reason.startswith("nobody looked for less than a second; ")


def test_a_file_that_was_empty_when_the_agent_died(
    log: Path, files: JournalledFiles, store: ProgramDescriptors
) -> None:
    log.touch()
    turns(files)
    assert not files.journal
    assert [name.split(".")[1] for name in kept_files(store)] == ["new"]
    files.crash()
    append(log, "first words\n")
    log.rename(log.with_name("elsewhere")).unlink()
    start_again(files)
    assert files.text == b"first words\n"
    assert [each.followed.path for each in files.of(Appeared)] == [str(log)]
    assert [name.split(".")[1] for name in kept_files(store)] == ["file"], "now it is a source"


def test_truncated_while_nobody_looked_and_then_deleted(log: Path, files: JournalledFiles) -> None:
    append(log, "old and long\n")
    turns(files)
    files.crash()
    log.write_text("new\n")
    log.unlink()
    start_again(files)
    assert files.text == b"old and long\nnew\n"
    assert len(list(files.of(Truncated))) == 1


def test_two_inputs_follow_one_file(log: Path, store: ProgramDescriptors) -> None:
    inputs = [FileInput(name, "t", (str(log),)) for name in ("one", "other")]
    files = JournalledFiles(*inputs, store=store)
    append(log, "first\n")
    turns(files)
    files.crash()
    append(log, "second\n")
    log.unlink()
    start_again(files)
    assert files.text.count(b"first\n") == files.text.count(b"second\n") == 2
    files.close()


def test_an_input_that_comes_later_still_gets_its_files(log: Path, files: JournalledFiles) -> None:
    inputs = files.inputs
    append(log, "first\n")
    turns(files)
    files.crash()
    append(log, "second\n")
    log.unlink()
    files.inputs = ()
    start_again(files)
    files.files.reconfigure(inputs)
    turns(files)
    assert files.text == b"first\nsecond\n"


def test_the_data_directory_was_deleted(
    log: Path, files: JournalledFiles, store: ProgramDescriptors, caplog: pytest.LogCaptureFixture
) -> None:
    append(log, "first\n")
    turns(files)
    (before,) = kept_files(store)
    files.crash()
    append(log, "second\n")
    log.unlink()
    files.journal.clear()
    files.agent_id = "ABCDEFGHIJ0123456789"
    start_again(files)
    assert files.text == b"first\n", "it is nobody's: what of it was shipped nobody knows"
    assert before not in kept_files(store)
    (line,) = [each for each in caplog.messages if "no sources of this journal" in each]
    assert line.endswith("files=3"), "the file, the queue, and what was read of that"


def test_a_source_that_has_ended_is_not_begun_again(
    log: Path, files: JournalledFiles, store: ProgramDescriptors
) -> None:
    append(log, "first\n")
    turns(files)
    kept = {name: os.dup(fd) for name, fd in store.kept().items()}
    log.unlink()
    turns(files, 80)
    assert not files.journal
    assert not kept_files(store)
    files.crash()
    for name, fd in kept.items():  # as if the store had not heard of the end
        store._kept.setdefault(name, fd)
    start_again(files)
    assert files.text == b"first\n"
    assert not kept_files(store)


def test_a_deleted_file_is_not_held_longer_for_each_restart(
    logs: LogFolder, store: ProgramDescriptors
) -> None:
    """Its quiet time goes on: files that were read to their ends do not pile up."""
    files = logs.follow("app.log", store=store, wall=time.time())
    append(logs.log, "one\n")
    turns(files)
    logs.log.unlink()
    turns(files, 2)
    for _ in range(4):
        files.crash()
        assert files.wall is not None
        files.wall += 4.0
        start_again(files, 2)
    assert len(list(files.of(Ended))) == 1
    assert kept_files(store) == []


class TestKilledAtALook:
    """What was read of the queue is not in it any more, and its consequences are nowhere."""

    @pytest.fixture(autouse=True)
    def _one(self, log: Path, files: JournalledFiles) -> None:
        append(log, "one\n")
        rest(files, 0.3)

    def die_in_look(self, files: JournalledFiles) -> None:
        files.now += 0.3
        files.files.look(files.now)
        files.crash()

    def traces(self, files: JournalledFiles) -> list[Traces]:
        files.said.clear()
        start_again(files, 20)
        return [each.traces for each in of_folders(files)]

    def rotate(self, log: Path, number: int, text: str) -> None:
        log.rename(f"{log}.{number}")
        append(log, text)
        written_at_once(log)

    def come_and_go(self, log: Path) -> None:
        self.rotate(log, 1, "nobody has seen this\n")
        self.rotate(log, 2, "three\n")

    def test_which_was_not_the_first(self, log: Path, files: JournalledFiles) -> None:
        self.come_and_go(log)
        self.die_in_look(files)
        assert self.traces(files) == [Traces.CHANGED]
        files.crash()
        self.rotate(log, 3, "four\n")
        assert self.traces(files) == [], "what was read is said by now"

    @pytest.mark.parametrize("has_looked", [False, True])
    def test_which_was_the_first(self, log: Path, files: JournalledFiles, has_looked: bool) -> None:
        files.crash()
        self.come_and_go(log)
        files.restart_closed()
        if has_looked:
            self.die_in_look(files)
        else:
            files.crash()
        assert self.traces(files) == [Traces.CHANGED]

    def test_and_what_had_come_went_before_the_next_start(
        self, log: Path, files: JournalledFiles
    ) -> None:
        log.rename(f"{log}.1")
        append(log, "nobody has seen this\n")
        self.die_in_look(files)
        self.rotate(log, 2, "three\n")
        assert self.traces(files) == [Traces.CHANGED]

    @pytest.mark.not_quick("very many files")
    def test_that_said_the_kernel_could_not_keep_all(
        self, log: Path, files: JournalledFiles
    ) -> None:
        self.come_and_go(log)
        for _ in range(QUEUED // 2 + 1):
            log.rename(f"{log}.4")
            Path(f"{log}.4").rename(log)
        self.die_in_look(files)
        assert self.traces(files) == [Traces.CHANGED]

    def test_that_said_of_growth_alone(self, log: Path, files: JournalledFiles) -> None:
        append(log, "two\n")
        self.die_in_look(files)
        self.rotate(log, 1, "three\n")
        assert self.traces(files) == []
        assert sorted(files.text.split()) == [b"one", b"three", b"two"]

    def test_before_a_folder_was_listed(self, log: Path, files: JournalledFiles) -> None:
        """Listing is put off where it takes long; that look is written down all the same."""
        files.files._next_listing = files.now + 10
        log.rename(f"{log}.1")
        append(log, "nobody has seen this\n")
        files.turn(0.3)
        files.crash()
        (log.parent / "new").write_text("three\n")
        (log.parent / "new").rename(log)
        assert self.traces(files) == [Traces.CHANGED]

    @pytest.mark.parametrize("kind", ["events", "history"])
    def test_what_was_read_is_lost(
        self, log: Path, files: JournalledFiles, store: ProgramDescriptors, kind: str
    ) -> None:
        """The queue is worth nothing without what was read of it, nor that without the queue."""
        files.crash()
        (name,) = [name for name in store.kept() if name.endswith(f".{kind}")]
        forget(store, name)
        log.rename(f"{log}.1")
        append(log, "two\n")
        assert self.traces(files) == [Traces.CHANGED]
        files.crash()
        self.rotate(log, 2, "three\n")
        assert self.traces(files) == []


class TestMeanwhile:
    """What came and went while no agent ran, by the history that was kept."""

    @pytest.fixture
    def files(self, logs: LogFolder, store: ProgramDescriptors) -> JournalledFiles:
        append(logs.log, "first\n")
        files = logs.follow(store=store)
        turns(files)
        files.crash()
        return files

    def told(self, folder: Path, files: JournalledFiles) -> Traces | None:
        start_again(files)
        said = [each.traces for each in files.unwatched if each.path == str(folder)]
        return said[-1] if said else None

    def come_and_go(self, *paths: Path) -> None:
        """One file, by one name after the other."""
        append(paths[0], "nobody's\n")
        for path, then in pairwise(paths):
            path.rename(then)
        paths[-1].unlink()

    def test_what_is_there_was_not_missed(self, logs: LogFolder, files: JournalledFiles) -> None:
        append(logs / "app.log.2", "second\n")
        written_at_once(logs / "app.log.2")
        logs.log.rename(logs / "app.log.1").unlink()
        assert self.told(logs.path, files) is None
        assert files.text == b"first\nsecond\n"

    @pytest.mark.parametrize("names", [("app.log.7", "other"), ("other", "app.log.7")])
    def test_what_came_and_went(
        self, logs: LogFolder, files: JournalledFiles, names: Sequence[str]
    ) -> None:
        self.come_and_go(*(logs / name for name in names))
        assert self.told(logs.path, files) is Traces.CHANGED
        assert files.unwatched[-1].reason.endswith("came and went between two looks: app.log.7")

    def test_what_is_not_meant_may_come_and_go(
        self, logs: LogFolder, files: JournalledFiles
    ) -> None:
        self.come_and_go(logs / "other")
        assert self.told(logs.path, files) is None
        files.crash()
        self.come_and_go(logs / "other")
        assert self.told(logs.path, files) is None

    @pytest.mark.parametrize("is_meant", [False, True])
    def test_what_nobody_knew_was_renamed(
        self, logs: LogFolder, store: ProgramDescriptors, is_meant: bool
    ) -> None:
        """It was there and empty, and its handle was not kept."""
        files = logs.follow("app.log*" if is_meant else "app.log", store=store)
        logs.log.touch()
        turns(files)
        files.crash()
        (name,) = kept_files(store)
        forget(store, name)
        append(logs.log, "one\n")
        written_at_once(logs.log)
        logs.log.rename(logs / "app.log.1")
        assert self.told(logs.path, files) is (None if is_meant else Traces.CHANGED)
        assert files.text == (b"one\n" if is_meant else b"")

    def test_an_archive_that_was_deleted(self, logs: LogFolder, store: ProgramDescriptors) -> None:
        """As every rotation deletes the oldest one. Nobody reads archives for themselves."""
        archives = [logs / f"app.log.{number}.gz" for number in range(1, 4)]
        for each in archives:
            each.write_bytes(gzip.compress(b"old\n"))
        files = logs.follow(store=store)
        turns(files)
        files.crash()
        archives[2].unlink()
        archives[1].rename(archives[2])
        archives[0].rename(archives[1])
        assert self.told(logs.path, files) is None

    @pytest.mark.parametrize("comes_and_goes", [False, True])
    @pytest.mark.parametrize("is_told", [False, True])
    def test_a_folder_that_was_made_anew(
        self, logs: LogFolder, store: ProgramDescriptors, is_told: bool, comes_and_goes: bool
    ) -> None:
        """What came and went in it before it was watched, no event tells; nor, where the folder
        above is not watched, whether it is the first that was made."""
        folder = logs / "logs"
        folder.mkdir()
        files = logs.follow("logs/*.log", *["*.log"] * is_told, store=store)
        turns(files)
        files.crash()
        folder.rename(logs / "old")
        folder.mkdir()
        if comes_and_goes:
            time.sleep(0.05)
            self.come_and_go(folder / "app.log")
        is_known = is_told and not comes_and_goes
        assert self.told(folder, files) is (None if is_known else Traces.CHANGED)

    def test_a_folder_that_came_and_went(self, logs: LogFolder, store: ProgramDescriptors) -> None:
        """With a file that nobody has seen; another one has its place."""
        folder = logs / "logs"
        folder.mkdir()
        files = logs.follow("logs/app.log", "app.log", store=store)
        turns(files)
        files.crash()
        for text in ("second\n", "third\n"):
            shutil.rmtree(folder)
            folder.mkdir()
            append(folder / "app.log", text)
        start_again(files)
        said = [each.reason for each in files.unwatched if each.traces is Traces.CHANGED]
        assert said == ["came and went between two looks: logs"]

    def test_a_queue_that_overflowed(self, logs: LogFolder, files: JournalledFiles) -> None:
        one, other = logs / "a", logs / "b"
        one.touch()
        for _ in range(QUEUED // 4 + 1):  # two events each way
            one.rename(other)
            other.rename(one)
        assert self.told(logs.path, files) is Traces.CHANGED


def test_the_position_is_written_down_when_names_change_and_at_no_other_look(
    logs: LogFolder,
) -> None:
    """Also after the kernel lost events, and where a link to a watched folder goes."""
    (logs / "logs").mkdir()
    (logs / "link").symlink_to(logs / "logs")
    files = logs.follow("*/app.log*")
    log, other = logs / "logs" / "app.log", logs / "logs" / "app.log.0"
    append(log, "one\n")
    append(other, "one\n")
    turns(files)

    def written(act: Callable[[], object]) -> int:
        act()
        turns(files, 20)
        before = files.positions
        turns(files, 20)
        append(other, "two\n")
        turns(files, 20)
        assert files.positions == before, "nothing but a file has changed"
        return before

    def lose_events() -> None:
        files.files._shared.watcher.overflowed = True

    begun = written(lambda: None)
    renamed = written(lambda: log.rename(f"{log}.1"))
    unlinked = written((logs / "link").unlink)
    assert begun < renamed < unlinked < written(lose_events)

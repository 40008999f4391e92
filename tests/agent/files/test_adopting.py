"""What an agent had open outlives it: kept by the store of `penstock up`, handed to the next."""

import gzip
import os
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from agent.blind_times import Traces
from agent.files.happenings import Appeared, Deleted, Ended, Truncated
from penstock.up.descriptor_store import ProgramDescriptors
from tests.agent.files.journalled_files import Follow, JournalledFiles, append, written_at_once


@pytest.fixture
def store() -> Iterator[ProgramDescriptors]:
    with ProgramDescriptors(100) as store:
        yield store


@pytest.fixture
def files(follow: Follow, store: ProgramDescriptors) -> JournalledFiles:
    return follow("app.log", store=store)


def turns(files: JournalledFiles, count: int = 6) -> None:
    for _ in range(count):
        files.turn(0.3)


def kept_files(store: ProgramDescriptors) -> list[str]:
    return [name for name in store.kept() if ".events" not in name]


def test_renamed_compressed_deleted_and_made_anew(
    tmp_path: Path, files: JournalledFiles, store: ProgramDescriptors
) -> None:
    log = tmp_path / "app.log"
    append(log, "one\n")
    turns(files)
    assert files.text == b"one\n"
    files.crash()
    append(log, "two\n")
    rotated = log.rename(tmp_path / "app.log.1")
    with gzip.open(tmp_path / "app.log.1.gz", "wb") as file:
        file.write(rotated.read_bytes())
    rotated.unlink()
    append(log, "three\n")
    files.restart_closed()
    turns(files)
    assert sorted(files.text.split()) == [b"one", b"three", b"two"]
    assert files.lost == 0
    assert len({source for source, _, _ in files.read}) == 2
    assert len(list(files.of(Deleted))) == 1
    turns(files, 80)
    (ended,) = files.of(Ended)
    assert (ended.followed.progress.position, ended.followed.unread) == (8, 0)
    assert len(kept_files(store)) == 1, "what is over takes no room on the disk"


def test_the_queue_that_was_kept_accounts_for_the_time_without_an_agent(
    tmp_path: Path, files: JournalledFiles
) -> None:
    """A rotation is no blind time then, and what came and went under a name that is meant is."""
    log = tmp_path / "app.log"
    append(log, "one\n")
    for _ in range(3):
        time.sleep(0.03)  # until the clock of the file system has moved on
        files.turn(0.3)
    files.crash()
    log.rename(tmp_path / "app.log.1")
    append(log, "two\n")
    written_at_once(log)
    append(tmp_path / "other", "not meant\n")
    (tmp_path / "other").unlink()
    files.restart_closed()
    turns(files)
    (said,) = files.unwatched
    assert (said.traces, said.path) == (Traces.UNCHANGED, str(tmp_path))
    assert "every name that came or went is known" in said.reason

    files.crash()
    log.rename(tmp_path / "app.log.2")
    append(log, "nobody has seen this\n")
    log.unlink()
    append(log, "three\n")
    files.restart_closed()
    turns(files)
    assert files.unwatched[-1].traces is Traces.CHANGED
    assert files.text.split() == [b"one", b"two", b"three"]


@pytest.mark.parametrize("is_meant", [False, True])
def test_a_new_file_that_was_renamed_while_no_agent_ran(
    tmp_path: Path, follow: Follow, store: ProgramDescriptors, is_meant: bool
) -> None:
    """It is still there; who looks only for the name that it had does not find it."""
    files = follow("app.log*" if is_meant else "app.log", store=store)
    log = tmp_path / "app.log"
    append(log, "one\n")
    for _ in range(3):
        time.sleep(0.03)
        files.turn(0.3)
    files.crash()
    log.rename(tmp_path / "app.log.2")
    append(log, "two\n")
    written_at_once(log)
    log.rename(tmp_path / "app.log.1")
    append(log, "three\n")
    written_at_once(log)
    files.restart_closed()
    turns(files)
    wanted = [b"one", b"three", b"two"] if is_meant else [b"one", b"three"]
    assert sorted(files.text.split()) == wanted
    (said,) = files.unwatched
    assert said.traces is (Traces.UNCHANGED if is_meant else Traces.CHANGED)


def test_what_comes_and_goes_before_the_first_look(tmp_path: Path, files: JournalledFiles) -> None:
    """The queue has been taken over, and no folder was listed yet."""
    append(tmp_path / "app.log", "one\n")
    for _ in range(3):
        time.sleep(0.03)
        files.turn(0.3)
    files.crash()
    files.restart_closed()
    (tmp_path / "app.log").rename(tmp_path / "app.log.1")
    append(tmp_path / "app.log", "nobody has seen this\n")
    (tmp_path / "app.log").unlink()
    turns(files)
    (said,) = files.unwatched
    assert said.traces is Traces.CHANGED


def written_for_long(path: Path) -> None:
    """As its own times say."""
    later = time.time() + 60.0
    os.utime(path, (later, later))


@pytest.mark.parametrize("is_written_again", [False, True])
def test_a_new_file_may_have_been_emptied_while_no_agent_ran(
    tmp_path: Path, follow: Follow, store: ProgramDescriptors, is_written_again: bool
) -> None:
    """It leaves no trace: the file is as it would be if it had only grown, or never had."""
    files = follow("app.log", store=store)
    log = tmp_path / "app.log"
    append(log, "one\n")
    for _ in range(3):
        time.sleep(0.03)
        files.turn(0.3)
    files.crash()
    log.rename(tmp_path / "app.log.1")
    append(log, "nobody has seen this\n")
    log.write_text("two\n" if is_written_again else "")
    written_for_long(log)
    files.restart_closed()
    turns(files)
    assert [each.traces for each in files.unwatched if not each.source] == [Traces.CHANGED]


@pytest.mark.parametrize("is_meant", [True, False])
@pytest.mark.parametrize("seconds", [4.0, 60.0])
def test_a_file_may_have_been_emptied_again_after_it_was_copied_and_truncated(
    tmp_path: Path, follow: Follow, store: ProgramDescriptors, is_meant: bool, seconds: float
) -> None:
    """What was read of it is in the copy; what came after that, nobody knows."""
    files = follow("app.log*" if is_meant else "app.log", store=store)
    log, copy = tmp_path / "app.log", tmp_path / "app.log.1"
    append(log, "one\n" * 500)
    for _ in range(3):
        time.sleep(0.03)
        files.turn(0.3)
    files.crash()
    copy.write_bytes(log.read_bytes())
    log.write_text("nobody has seen this\n")
    log.write_text("two\n")
    later = time.time() + seconds
    os.utime(log, (later, later))
    files.restart_closed()
    turns(files)
    assert files.text == b"one\n" * 500 + b"two\n"
    said = files.unwatched[-1]
    assert said.traces is (Traces.CHANGED if seconds > 5 else Traces.BRIEF)
    assert (said.path, said.source) == (str(tmp_path), "")
    assert said.reason.endswith("may have been emptied: app.log")


@pytest.mark.parametrize("is_emptied", [True, False])
def test_a_new_file_was_copied_while_no_agent_ran(
    tmp_path: Path, follow: Follow, store: ProgramDescriptors, is_emptied: bool
) -> None:
    """And emptied within a moment, or not: the copy tells."""
    files, log = follow("app.log", store=store), tmp_path / "app.log"
    turns(files)
    files.crash()
    append(log, "nobody has seen this\n")
    time.sleep(0.03)
    (tmp_path / "app.log.1").write_bytes(log.read_bytes())
    if is_emptied:
        log.write_text("two\n")
    files.restart_closed()
    turns(files)
    assert files.text == (b"two\n" if is_emptied else b"nobody has seen this\n")
    said = [each for each in files.unwatched if each.traces is Traces.CHANGED]
    assert len(said) == is_emptied
    assert all(each.reason.endswith("may have been emptied: app.log") for each in said)


@pytest.mark.parametrize("where", ["new", "elsewhere/new"])
def test_a_finished_file_was_moved_there_while_no_agent_ran(
    tmp_path: Path, follow: Follow, store: ProgramDescriptors, where: str
) -> None:
    """It was written for longer than a moment, where nobody looks."""
    (tmp_path / "elsewhere").mkdir()
    files = follow("app.log", store=store)
    append(tmp_path / "app.log", "one\n")
    for _ in range(3):
        time.sleep(0.03)
        files.turn(0.3)
    files.crash()
    append(tmp_path / where, "two\nthree\n")
    written_for_long(tmp_path / where)
    (tmp_path / "app.log").rename(tmp_path / "app.log.1")
    (tmp_path / where).rename(tmp_path / "app.log")
    files.restart_closed()
    turns(files)
    assert files.text == b"one\ntwo\nthree\n"
    assert [each.traces for each in files.unwatched] == [Traces.UNCHANGED]


def test_again_and_again(tmp_path: Path, files: JournalledFiles) -> None:
    log, wanted = tmp_path / "app.log", []
    for life in range(5):
        for number in range(3):
            wanted.append(f"{life} {number}".encode())
            append(log, f"{life} {number}\n")
            if number == life % 3:
                log.unlink()
            if number == 1:
                turns(files)
                files.crash()
        files.restart_closed()
        turns(files, 3)
    # What came and went while nobody looked is another matter: here each file was seen.
    seen = sorted(files.text.splitlines())
    assert len(seen) == len(set(seen))
    assert files.lost == 0


def test_a_file_that_was_empty_when_the_agent_died(tmp_path: Path, files: JournalledFiles) -> None:
    log = tmp_path / "app.log"
    log.touch()
    turns(files)
    assert not files.journal
    files.crash()
    append(log, "first words\n")
    log.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").unlink()
    files.restart_closed()
    turns(files)
    assert files.text == b"first words\n"
    (appeared,) = files.of(Appeared)
    assert appeared.followed.path == str(log)


def test_one_that_was_empty_is_called_otherwise_once_it_is_a_source(
    tmp_path: Path, files: JournalledFiles, store: ProgramDescriptors
) -> None:
    log = tmp_path / "app.log"
    log.touch()
    turns(files)
    assert [name.split(".")[1] for name in kept_files(store)] == ["new"]
    append(log, "words\n")
    turns(files)
    assert [name.split(".")[1] for name in kept_files(store)] == ["file"]


def test_truncated_while_nobody_looked_and_then_deleted(
    tmp_path: Path, files: JournalledFiles
) -> None:
    log = tmp_path / "app.log"
    append(log, "old and long\n")
    turns(files)
    files.crash()
    log.write_text("new\n")
    log.unlink()
    files.restart_closed()
    turns(files)
    assert files.text == b"old and long\nnew\n"
    assert len(list(files.of(Truncated))) == 1


def test_two_inputs_follow_one_file(tmp_path: Path, store: ProgramDescriptors) -> None:
    from agent.files.inputs import FileInput  # noqa: PLC0415

    log = tmp_path / "app.log"
    inputs = [FileInput(name, "t", (str(log),)) for name in ("one", "other")]
    files = JournalledFiles(*inputs, store=store)
    append(log, "first\n")
    turns(files)
    files.crash()
    append(log, "second\n")
    log.unlink()
    files.restart_closed()
    turns(files)
    assert files.text.count(b"first\n") == files.text.count(b"second\n") == 2
    files.close()


def test_an_input_that_comes_later_still_gets_its_files(
    tmp_path: Path, files: JournalledFiles
) -> None:
    log, inputs = tmp_path / "app.log", files.inputs
    append(log, "first\n")
    turns(files)
    files.crash()
    append(log, "second\n")
    log.unlink()
    files.inputs = ()
    files.restart_closed()
    turns(files)
    files.files.reconfigure(inputs)
    turns(files)
    assert files.text == b"first\nsecond\n"


def test_the_data_directory_was_deleted(
    tmp_path: Path,
    files: JournalledFiles,
    store: ProgramDescriptors,
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = tmp_path / "app.log"
    append(log, "first\n")
    turns(files)
    (before,) = kept_files(store)
    files.crash()
    append(log, "second\n")
    log.unlink()
    files.journal.clear()
    files.agent_id = "ABCDEFGHIJ0123456789"
    files.restart_closed()
    turns(files)
    assert files.text == b"first\n", "it is nobody's: what of it was shipped nobody knows"
    assert before not in kept_files(store)
    (line,) = [each for each in caplog.messages if "no sources of this journal" in each]
    assert line.endswith("files=3"), "the file, the queue, and what was read of that"


def test_a_source_that_has_ended_is_not_begun_again(
    tmp_path: Path, files: JournalledFiles, store: ProgramDescriptors
) -> None:
    log = tmp_path / "app.log"
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
    files.restart_closed()
    turns(files)
    assert files.text == b"first\n"
    assert not kept_files(store)


class TestKilledAtALook:
    """What was read of the queue is not in it any more, and nobody has written it down."""

    @pytest.fixture
    def log(self, tmp_path: Path, files: JournalledFiles) -> Path:
        append(tmp_path / "app.log", "one\n")
        for _ in range(3):
            time.sleep(0.03)
            files.turn(0.3)
        return tmp_path / "app.log"

    def die_in_look(self, files: JournalledFiles) -> None:
        files.now += 0.3
        files.files.look(files.now)
        files.crash()

    def traces(self, files: JournalledFiles) -> list[Traces]:
        files.said.clear()
        files.restart_closed()
        turns(files, 20)
        return [each.traces for each in files.unwatched if not each.source]

    def come_and_go(self, log: Path) -> None:
        log.rename(f"{log}.1")
        append(log, "nobody has seen this\n")
        log.rename(f"{log}.2")
        append(log, "three\n")

    def test_which_was_not_the_first(self, log: Path, files: JournalledFiles) -> None:
        self.come_and_go(log)
        self.die_in_look(files)
        assert self.traces(files) == [Traces.CHANGED]
        files.crash()
        log.rename(f"{log}.3")
        append(log, "four\n")
        written_at_once(log)
        assert self.traces(files) == [Traces.UNCHANGED], "what was read is said by now"

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
        log.rename(f"{log}.2")
        append(log, "three\n")
        assert self.traces(files) == [Traces.CHANGED]

    @pytest.mark.not_quick("very many files")
    def test_that_said_the_kernel_could_not_keep_all(
        self, log: Path, files: JournalledFiles
    ) -> None:
        self.come_and_go(log)
        most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        for _ in range(most // 2 + 1):
            log.rename(f"{log}.4")
            Path(f"{log}.4").rename(log)
        self.die_in_look(files)
        assert self.traces(files) == [Traces.CHANGED]

    def test_that_said_of_growth_alone(self, log: Path, files: JournalledFiles) -> None:
        append(log, "two\n")
        self.die_in_look(files)
        log.rename(f"{log}.1")
        append(log, "three\n")
        written_at_once(log)
        assert self.traces(files) == [Traces.UNCHANGED]
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

    def test_what_was_read_is_not_known(
        self, log: Path, files: JournalledFiles, store: ProgramDescriptors
    ) -> None:
        """As after an agent that did not say so."""
        files.crash()
        (name,) = [name for name in store.kept() if name.endswith(".events-unsaid")]
        os.close(store._kept.pop(name))
        log.rename(f"{log}.1")
        append(log, "two\n")
        assert self.traces(files) == [Traces.CHANGED]
        files.crash()
        log.rename(f"{log}.2")
        append(log, "three\n")
        written_at_once(log)
        assert self.traces(files) == [Traces.UNCHANGED]


class TestMeanwhile:
    """What came and went while no agent ran, by the queue that was kept."""

    @pytest.fixture
    def all_files(
        self, tmp_path: Path, follow: Follow, store: ProgramDescriptors
    ) -> JournalledFiles:
        append(tmp_path / "app.log", "first\n")
        files = follow("app.log*", store=store)
        turns(files)
        files.crash()
        return files

    def told(self, folder: Path, files: JournalledFiles) -> Traces:
        files.restart_closed()
        turns(files)
        return [each.traces for each in files.unwatched if each.path == str(folder)][-1]

    def come_and_go(self, *paths: Path) -> None:
        """One file, by one name after the other."""
        append(paths[0], "nobody's\n")
        for path, then in pairwise(paths):
            path.rename(then)
        paths[-1].unlink()

    def test_nothing(self, tmp_path: Path, all_files: JournalledFiles) -> None:
        assert self.told(tmp_path, all_files) is Traces.UNCHANGED

    def test_what_is_there_was_not_missed(self, tmp_path: Path, all_files: JournalledFiles) -> None:
        append(tmp_path / "app.log.2", "second\n")
        written_at_once(tmp_path / "app.log.2")
        (tmp_path / "app.log").rename(tmp_path / "app.log.1")
        (tmp_path / "app.log.1").unlink()
        assert self.told(tmp_path, all_files) is Traces.UNCHANGED
        assert all_files.text == b"first\nsecond\n"

    @pytest.mark.parametrize("names", [("app.log.7", "other"), ("other", "app.log.7")])
    def test_what_came_and_went(
        self, tmp_path: Path, all_files: JournalledFiles, names: Sequence[str]
    ) -> None:
        self.come_and_go(*(tmp_path / name for name in names))
        assert self.told(tmp_path, all_files) is Traces.CHANGED

    def test_it_is_known_again_the_next_time(
        self, tmp_path: Path, all_files: JournalledFiles
    ) -> None:
        self.come_and_go(tmp_path / "other")
        assert self.told(tmp_path, all_files) is Traces.UNCHANGED
        all_files.crash()
        self.come_and_go(tmp_path / "other")
        assert self.told(tmp_path, all_files) is Traces.UNCHANGED

    def test_without_the_queue_nothing_is_known(
        self, tmp_path: Path, all_files: JournalledFiles, store: ProgramDescriptors
    ) -> None:
        (name,) = [name for name in store.kept() if name.endswith(".events")]
        os.close(store._kept.pop(name))
        self.come_and_go(tmp_path / "other")
        assert self.told(tmp_path, all_files) is Traces.CHANGED

    @pytest.mark.parametrize("is_meant", [False, True])
    def test_what_nobody_knew_was_renamed(
        self, tmp_path: Path, follow: Follow, store: ProgramDescriptors, is_meant: bool
    ) -> None:
        """It was there and empty, and its handle was not kept."""
        files = follow("app.log*" if is_meant else "app.log", store=store)
        (tmp_path / "app.log").touch()
        turns(files)
        files.crash()
        (name,) = kept_files(store)
        os.close(store._kept.pop(name))
        append(tmp_path / "app.log", "one\n")
        written_at_once(tmp_path / "app.log")
        (tmp_path / "app.log").rename(tmp_path / "app.log.1")
        wanted = Traces.UNCHANGED if is_meant else Traces.CHANGED
        assert self.told(tmp_path, files) is wanted
        assert files.text == (b"one\n" if is_meant else b"")

    def test_an_archive_that_was_deleted(self, tmp_path: Path, store: ProgramDescriptors) -> None:
        """As every rotation deletes the oldest one. Nobody reads archives for themselves."""
        from agent.files.inputs import FileInput  # noqa: PLC0415

        for number in range(1, 4):
            (tmp_path / f"app.log.{number}.gz").write_bytes(gzip.compress(b"old\n"))
        files = JournalledFiles(FileInput("in", "t", (f"{tmp_path}/app.log*",)), store=store)
        turns(files)
        files.crash()
        (tmp_path / "app.log.3.gz").unlink()
        for number in (2, 1):
            name = f"app.log.{number}.gz"
            (tmp_path / name).rename(tmp_path / f"app.log.{number + 1}.gz")
        assert self.told(tmp_path, files) is Traces.UNCHANGED
        files.close()

    def test_a_folder_that_was_made_anew(self, tmp_path: Path, store: ProgramDescriptors) -> None:
        from agent.files.inputs import FileInput  # noqa: PLC0415

        folder = tmp_path / "logs"
        folder.mkdir()
        files = JournalledFiles(FileInput("in", "t", (f"{folder}/*.log",)), store=store)
        turns(files)
        files.crash()
        folder.rename(tmp_path / "old")
        folder.mkdir()
        assert self.told(folder, files) is Traces.CHANGED
        files.close()

    def test_a_queue_that_overflowed(self, tmp_path: Path, all_files: JournalledFiles) -> None:
        most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        one, other = tmp_path / "a", tmp_path / "b"
        one.touch()
        for _ in range(most // 4 + 1):  # two events each way
            one.rename(other)
            other.rename(one)
        assert self.told(tmp_path, all_files) is Traces.CHANGED

"""What an agent had open outlives it: kept by the store of `penstock up`, handed to the next."""

import gzip
import os
import time
from pathlib import Path

import pytest

from agent.files.happenings import Appeared, Deleted, Ended, Truncated
from agent.history.blind_times import Traces
from penstock.up.descriptor_store import ProgramDescriptors
from tests.agent.files.journalled_files import Follow, JournalledFiles, append, written_at_once
from tests.agent.files.kept_files import kept_files, turns


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


def test_the_history_that_was_kept_accounts_for_the_time_without_an_agent(
    tmp_path: Path, files: JournalledFiles
) -> None:
    """Nothing is said of a rotation; what came and went under a name that is meant is named."""
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
    assert files.unwatched == []

    files.crash()
    log.rename(tmp_path / "app.log.2")
    append(log, "nobody has seen this\n")
    log.unlink()
    append(log, "three\n")
    written_at_once(log)
    files.restart_closed()
    turns(files)
    (said,) = files.unwatched
    assert (said.traces, said.path) == (Traces.CHANGED, str(tmp_path))
    assert said.reason.endswith("came and went between two looks: app.log")
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
    assert [each.traces for each in files.unwatched] == ([] if is_meant else [Traces.CHANGED])


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
@pytest.mark.parametrize("seconds", [3.0, 3600.0])
def test_a_new_file_may_have_been_emptied_while_no_agent_ran(
    tmp_path: Path,
    follow: Follow,
    store: ProgramDescriptors,
    is_written_again: bool,
    seconds: float,
) -> None:
    """It leaves no trace: the file is as it would be if it had only grown, or never had. That is
    all that the history of names leaves open, so it is said without a demand, however long."""
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
    files.away += seconds
    files.restart_closed()
    turns(files)
    (said,) = [each for each in files.unwatched if not each.source]
    assert said.traces is Traces.BRIEF
    assert said.reason.startswith(f"nobody looked for {seconds:.0f} s; ")


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
    written_at_once(copy)
    log.write_text("nobody has seen this\n")
    log.write_text("two\n")
    later = time.time() + seconds
    os.utime(log, (later, later))
    files.restart_closed()
    turns(files)
    assert files.text == b"one\n" * 500 + b"two\n"
    said = files.unwatched[-1]
    assert said.traces is Traces.BRIEF
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
    files.away += 2.0
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
    files.away += 60.0
    files.restart_closed()
    turns(files)
    assert files.text == b"one\ntwo\nthree\n"
    assert files.unwatched == []


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
    from agent.file_inputs import FileInput  # noqa: PLC0415

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
    """What was read of the queue is not in it any more, and its consequences are nowhere."""

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
        written_at_once(log)

    def test_which_was_not_the_first(self, log: Path, files: JournalledFiles) -> None:
        self.come_and_go(log)
        self.die_in_look(files)
        assert self.traces(files) == [Traces.CHANGED]
        files.crash()
        log.rename(f"{log}.3")
        append(log, "four\n")
        written_at_once(log)
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
        log.rename(f"{log}.2")
        append(log, "three\n")
        written_at_once(log)
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
        os.close(store._kept.pop(name))
        log.rename(f"{log}.1")
        append(log, "two\n")
        assert self.traces(files) == [Traces.CHANGED]
        files.crash()
        log.rename(f"{log}.2")
        append(log, "three\n")
        written_at_once(log)
        assert self.traces(files) == []


def test_a_deleted_file_is_not_held_longer_for_each_restart(
    tmp_path: Path, follow: Follow, store: ProgramDescriptors
) -> None:
    """Its quiet time goes on: files that were read to their ends do not pile up."""
    files, log = follow("app.log", store=store, wall=time.time()), tmp_path / "app.log"
    append(log, "one\n")
    turns(files)
    log.unlink()
    turns(files, 2)
    for _ in range(4):
        files.crash()
        assert files.wall is not None
        files.wall += 4.0
        files.restart_closed()
        turns(files, 2)
    assert len(list(files.of(Ended))) == 1
    assert kept_files(store) == []

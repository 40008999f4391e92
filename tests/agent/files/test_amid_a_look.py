"""What happens while the agent looks: after it has asked what has happened, before it has listed
the folders, or after that."""

import shutil
import time
from collections.abc import Callable

import pytest

from agent.history.blind_times import Traces
from tests.agent.files.journalled_files import LogFolder, append, rest, settle

BEFORE_LISTING = 2  # the question for the time after which folders are listed
BEFORE_MEETING = 3  # and that after which files that are new get a source


class Amid:
    """Asked for the time, it does something, once: after so many answers from now on. What comes
    next may be as many seconds later as it is `frozen`."""

    def __init__(self) -> None:
        self.frozen = 0.0
        self._answers = 0
        self._act: Callable[[], None] = self.freeze

    def freeze(self) -> None:
        self.frozen = 4.0

    def after(self, answers: int, act: Callable[[], None]) -> None:
        self._answers, self._act = answers, act

    def __call__(self) -> float:
        now = time.monotonic() + self.frozen
        self._answers -= 1
        if not self._answers:
            self._act()
        return now


@pytest.mark.parametrize("is_told", [False, True])
@pytest.mark.parametrize("made", ["not", "anew", "with another inode"])
@pytest.mark.parametrize("seconds", [0.05, 6.0])
def test_a_folder_is_removed_and_made_again(
    logs: LogFolder, is_told: bool, made: str, seconds: float
) -> None:
    """By then the kernel may have told that there is another file, and not that it is gone. A file
    system may give the same inode once more."""
    folder = logs / "shop"
    log, amid = folder / "app.log", Amid()
    files = logs.follow("*/app.log*", boot=amid)
    folder.mkdir()
    append(folder / "other", "not meant\n")
    rest(files)

    def act() -> None:
        if not is_told:
            append(log, "nobody has seen this\n")
        shutil.rmtree(folder)
        if made == "with another inode":
            (logs / "empty").mkdir()
        if made != "not":
            folder.mkdir()
            append(log, "new\n")

    (folder / "other").unlink()
    if is_told:
        append(log, "nobody has seen this\n")
    amid.after(BEFORE_LISTING, act)
    files.turn(seconds)
    settle(files)
    assert files.text == (b"" if made == "not" else b"new\n")
    (said,) = files.unwatched
    assert said.reason == "came and went between two looks: app.log"
    assert (said.path, said.traces) == (str(folder), Traces.CHANGED)


def test_another_file_has_its_name_before_the_look_comes_to_it(logs: LogFolder) -> None:
    """The kernel has told of the first one, and not yet of what became of it."""
    log, amid = logs.log, Amid()
    files = logs.follow("*.log", boot=amid)
    append(logs / "other.log", "other\n")
    rest(files)

    def act() -> None:
        log.rename(logs / "app.log.1")
        append(log, "two\n")

    append(log, "one\n")
    amid.after(BEFORE_LISTING, act)
    settle(files)
    assert {b"one", b"two"} < set(files.text.split())
    assert not files.unwatched


def test_an_idle_file_grows_after_the_kernel_was_asked(logs: LogFolder) -> None:
    """Nobody waits for an event that was taken already."""
    log, amid = logs.log, Amid()
    files = logs.follow("*.log", boot=amid)
    append(log, "one\n")
    rest(files)
    settle(files)
    assert files.files.at_rest
    amid.after(BEFORE_LISTING, lambda: append(log, "two\n"))
    files.turn()
    assert not files.files.at_rest
    files.turn()
    assert files.text == b"one\ntwo\n"


def test_a_process_that_stands_still(logs: LogFolder) -> None:
    """It is stopped as it sees that names changed, and lists them when it goes on."""
    amid = Amid()
    files = logs.follow("*.log", boot=amid)
    rest(files)
    append(logs.log, "nobody has seen this\n")
    time.sleep(0.05)
    (logs.log).write_text("two\n")
    amid.after(BEFORE_LISTING, amid.freeze)
    files.turn()
    (said,) = files.unwatched
    assert (said.traces, said.reason[:16]) == (Traces.BRIEF, "no look for 4 s;")


def test_a_process_that_stands_still_before_it_lists_once_more(logs: LogFolder) -> None:
    """As it does where a file was truncated, in the same look."""
    log, other, amid = logs.log, logs / "other.log", Amid()
    files = logs.follow("*.log", boot=amid)
    append(log, "one\n" * 500)
    rest(files)

    def act() -> None:
        append(other, "nobody has seen this\n")
        time.sleep(0.05)
        other.write_text("two\n")
        amid.freeze()

    log.write_text("")
    amid.after(BEFORE_MEETING, act)
    files.turn()
    assert files.text == b"one\n" * 500 + b"two\n"
    (said,) = [each for each in files.unwatched if not each.source]
    assert (said.traces, said.reason[:16]) == (Traces.BRIEF, "no look for 4 s;")
    assert said.reason.endswith("other.log")

"""A source of which nothing was ever seen, as its file was emptied and stood empty: it may have
been written to and emptied once more, and nobody knows."""

import os
import time
from pathlib import Path

import pytest

from agent.history.blind_times import Traces
from penstock.up.descriptor_store import ProgramDescriptors
from tests.agent.files.journalled_files import Follow, JournalledFiles, append, rest, settle
from tests.agent.files.kept_files import turns

SECONDS = [(4.0, [Traces.BRIEF]), (60.0, [Traces.CHANGED])]


def emptied(files: JournalledFiles, log: Path) -> None:
    """It is a source for the second time, and has no byte."""
    append(log, "one\n" * 500)
    rest(files)
    log.write_text("")
    rest(files)


def written(log: Path, seconds: float) -> None:
    """To its end so long after the last look."""
    later = time.time() + seconds
    os.utime(log, (later, later))


def traces(files: JournalledFiles) -> list[Traces]:
    said = [
        each for each in files.unwatched if each.reason.endswith("may have been emptied: app.log")
    ]
    return [each.traces for each in said]


@pytest.mark.parametrize(("seconds", "said"), SECONDS)
def test_while_no_agent_ran(
    tmp_path: Path, follow: Follow, seconds: float, said: list[Traces]
) -> None:
    files, log = follow("app.log"), tmp_path / "app.log"
    emptied(files, log)
    files.crash()
    append(log, "nobody has seen this\n")
    log.write_text("two\n")
    written(log, seconds)
    files.restart_closed()
    settle(files)
    assert traces(files) == said
    rest(files)
    files.crash()
    append(log, "three\n")
    written(log, 2 * seconds)
    files.restart_closed()
    settle(files)
    assert files.text == b"one\n" * 500 + b"two\nthree\n"
    assert traces(files) == said, "by then it was known how it begins"


@pytest.mark.parametrize(("seconds", "said"), SECONDS)
def test_while_the_process_stood_still(
    tmp_path: Path, follow: Follow, seconds: float, said: list[Traces]
) -> None:
    frozen = [0.0]
    files = follow("app.log", boot=lambda: time.monotonic() + frozen[0])
    log = tmp_path / "app.log"
    emptied(files, log)
    append(log, "nobody has seen this\n")
    log.write_text("two\n")
    written(log, seconds)
    frozen[0] = seconds
    settle(files)
    assert traces(files) == said
    append(log, "three\n")
    frozen[0] = 2 * seconds
    settle(files)
    assert files.text == b"one\n" * 500 + b"two\nthree\n"
    assert traces(files) == said


@pytest.mark.parametrize("touch", [False, True])
def test_it_is_as_it_was(tmp_path: Path, follow: Follow, touch: bool) -> None:
    """Nothing was written, or what was seen before is still how it begins."""
    files, log = follow("app.log"), tmp_path / "app.log"
    emptied(files, log)
    if touch:
        append(log, "two\n")
        rest(files)
    files.crash()
    if touch:
        append(log, "three\n")
    files.restart_closed()
    settle(files)
    assert traces(files) == []


@pytest.mark.parametrize("is_emptied", [True, False])
def test_a_file_that_was_begun_while_no_agent_ran_may_have_been_emptied_however_short_that_was(
    follow: Follow, store: ProgramDescriptors, tmp_path: Path, is_emptied: bool
) -> None:
    files, log = follow("app.log", store=store), tmp_path / "app.log"
    append(log, "one\n")
    turns(files)
    files.crash()
    log.unlink()
    append(log, "two\n")
    if is_emptied:
        os.truncate(log, 0)
    files.restart_closed()
    turns(files)
    (said,) = files.unwatched
    assert said.traces is Traces.BRIEF
    assert said.reason.startswith("nobody looked for less than a second; ")

"""Statements that something is unknown, where a kept history knows it. Pure.

Rule `false unknown` is for runs in which the agent's open files are kept over its death, and with
them the kernel's notices of names: what is called unknown by an agent holds a lost line, or one of
these happened at that place and time. Everything else a history tells.

- Bytes between copying and truncating: a file was copied, and emptied after that.
- A file was truncated in place, and no copy was left: what it got between the last look and the
  truncation is nowhere, and nobody knows whether that was anything. The statement names the file.
- A file was emptied in place before anything of it was read. That this may have been is said of a
  moment in which a file was made, or written to for the first time, without being red ("for a
  moment").
- A file came and went while the agent did not run, or within a second, and nothing of it was read.
- A folder was made while the agent did not run: what happened in it before it was watched.
- A file behind a symbolic link was begun, where nobody watches: made, or written to for the first
  time. Others may have had its place, or it may have been emptied before.
- There is no history: a first start, and one after the data directory was deleted or damaged.
  Scripts have no reboot, no overflow of the kernel's queue, no store that is lost alone, and no
  file system without notices.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Final

from tests.campaigns.witness.application import LINK
from tests.campaigns.witness.objections import Objection
from tests.campaigns.witness.truth import File, Truth
from tests.campaigns.witness.verdict import Called

# Between what was done and what the agent says of it: it looks every half second.
_SLACK: Final = 1_000
# Until what lies in a new folder is watched after a start, on a busy machine.
_STARTING: Final = 15_000


def is_of_an_agent(called: Called) -> bool:
    """Whether it says that nobody watched: not that rows are of nobody, or what a log lost."""
    return called.kind == "unknown" and not called.is_of_rows and called.partition < 0


def needless(
    called: Called, truth: Truth, read: set[int], files: Sequence[File]
) -> Iterator[Objection]:
    """`files` are those that it is about, none of whose lines is lost then; `read` are the ids of
    those of which something was read."""
    if not any(
        (
            _has_no_history(called, truth),
            any(_was_copied(called, truth, file) for file in files),
            any(_was_truncated(called, truth, file) for file in files),
            any(_was_emptied(called, truth, file, read) for file in files),
            any(_came_and_went(called, truth, file, read) for file in files),
            any(_is_of_new_folder(called, truth, file) for file in files),
            any(_is_behind_a_link(called, truth, file) for file in files),
        )
    ):
        yield Objection("false unknown", called.words)


def is_there(called: Called, file: File) -> bool:
    """Whether the file was at that place: it, its folder, or the folder above."""
    paths = [PurePath(name) for name in file.names]
    places = {str(place) for path in paths for place in (path, path.parent, path.parent.parent)}
    return not called.path or called.path in places


def _is_then(called: Called, truth: Truth, moment: int) -> bool:
    slack = _SLACK + int(truth.clock * 1000)
    return called.from_time - slack <= moment <= called.to_time + slack


def _has_no_history(called: Called, truth: Truth) -> bool:
    is_first = called.from_time < truth.first_start
    return is_first or any(_is_then(called, truth, moment) for moment in truth.forgotten)


def _was_copied(called: Called, truth: Truth, file: File) -> bool:
    says_so = called.source or "after it was copied" in called.words
    lives = [life for life in file.lives() if _is_then(called, truth, life.copied)]
    return bool(says_so and lives)


def _was_truncated(called: Called, truth: Truth, file: File) -> bool:
    lives = [life for life in file.lives() if life.cut and _is_then(called, truth, life.ended)]
    return bool(called.source and lives)


def _was_emptied(called: Called, truth: Truth, file: File, read: set[int]) -> bool:
    if called.is_moment and _was_begun(called, truth, file):
        return True
    emptied = min(file.ended, file.copied)
    return file.cut and id(file) not in read and _is_then(called, truth, emptied)


def _came_and_went(called: Called, truth: Truth, file: File, read: set[int]) -> bool:
    gone = min(file.ended, file.hidden)
    is_unseen = not truth.watched_between(file.made + _SLACK, gone)
    return is_unseen and id(file) not in read and _is_then(called, truth, gone)


def _is_of_new_folder(called: Called, truth: Truth, file: File) -> bool:
    """It was made anew while the agent did not run, and was not watched until that was over."""
    made = file.folder_made
    ends = [each.until for each in truth.blind if each.since <= made <= each.until]
    watched = max(ends, default=made) + _STARTING
    return bool(ends) and called.from_time <= watched and called.to_time >= made - _SLACK


def _is_behind_a_link(called: Called, truth: Truth, file: File) -> bool:
    says_so = "may have been emptied" in called.words
    return says_so and file.label == LINK and _was_begun(called, truth, file)


def _was_begun(called: Called, truth: Truth, file: File) -> bool:
    """Whether it was made then, or written to for the first time."""
    first = min((min(line.begun, line.written) for line in file.lines), default=file.made)
    return any(_is_then(called, truth, moment) for moment in (file.made, first))

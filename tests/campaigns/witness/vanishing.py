"""What nobody could know: files that came and went, logs that lost what was not counted. Pure."""

from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import PurePath
from typing import Final

from tests.campaigns.witness.history import Kept
from tests.campaigns.witness.objections import Objection
from tests.campaigns.witness.truth import NEVER, File, Line, Truth
from tests.campaigns.witness.verdict import Called, Seen

_SECOND: Final = 1000
# After which a broker may not know how far its log had reached.
_LOSES_ALL: Final = {"remove-partition", "remove-replicas", "wipe-broker"}


def was_brief(line: Line, truth: Truth, read: Collection[int]) -> bool:
    """Whether no agent could have read it: `read` are the ids of files of which something was."""
    file = line.file
    gone = min(file.ended, file.copied)
    if gone - line.written < _SECOND and truth.watched(gone):
        return True
    hidden = min(gone, file.hidden)
    if hidden - file.folder_made < _SECOND and _has_followed(file, truth):
        return True
    return file.cut and not any(id(each) in read for each in _since_seen_empty(file, truth))


def _since_seen_empty(file: File, truth: Truth) -> Iterator[File]:
    """What the inode was since it was copied and truncated, or was seen when it was empty: that a
    file was cut once is seen, or shown by its copy, and how often it was cut after that is not."""
    yield file
    for later, life in pairwise(file.lives()):
        begun = min((min(line.begun, line.written) for line in later.lines), default=life.ended)
        if life.copied != NEVER or truth.watched_between(life.ended, begun):
            return
        yield life


def _has_followed(file: File, truth: Truth) -> bool:
    """Whether another file was made in that folder, after this one."""
    folder = PurePath(file.names[0]).parent
    return any(
        each.number > file.number and PurePath(each.names[0]).parent == folder
        for each in truth.files
    )


def came_and_went(file: File, called: Called) -> bool:
    """Whether it was cut in that folder and at that time, or lost its last name that a pattern
    matches, within a second of its first line: no look need have found what it was."""
    cut = min(file.ended, file.copied, file.hidden)
    first = min((min(line.begun, line.written) for line in file.lines), default=NEVER)
    there = called.path in {str(PurePath(name).parent) for name in file.names}
    at_that_time = called.from_time - _SECOND <= cut <= called.to_time + _SECOND
    return not called.source and there and at_that_time and cut - first < _SECOND


def log_lost_unknown(called: Called, truth: Truth, seen: Seen) -> Iterator[Objection]:
    """A log can have lost what nobody knows of where it was lost whole, or was led by who did not
    have all of it; and where others than agents write, who say themselves what they have sent."""
    if not truth.done & _LOSES_ALL and not truth.any_leads:
        yield Objection("unexplained", f"it was known how far the log had reached: {called.words}")
    elif not any(kept.others for kept in seen.records):
        yield Objection("unexplained", f"only agents have written there: {called.words}")


def is_beyond(called: Called, kept: Kept, text: str) -> bool:
    """Whether it is that line, where a log has lost what nobody knows of."""
    return kept.record.text == text and kept.record.offset >= called.offset

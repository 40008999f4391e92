"""What the witness's judge knows beside lines and rows. Pure.

    guess_files      which file a source is of which no line was ever seen: a finding begins and
                     ends where lines do, so there is nearly always just one that it fits
    Shipped          what agents have shipped, by source and byte: a line that was shipped as two
                     sources is there as long as one of them is
    was_brief, …     what nobody could know: files that came and went, logs that lost what was not
                     counted
    sums             rule `sums`: what a verdict shows in several places is the same
    needless         rule `false unknown`, for runs in which the agent's open files are kept over
                     its death, and with them the kernel's notices of names

What is called unknown by an agent holds a lost line, or one of these happened at that place and
time. Everything else a history tells.

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

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Final

from tests.campaigns.reading import Row
from tests.campaigns.witness.application import LINK
from tests.campaigns.witness.history import Kept
from tests.campaigns.witness.truth import NEVER, File, Line, Truth
from tests.campaigns.witness.verdict import Called, Objection, Seen, Verdict

_Misfit = tuple[bool, int, int, int, int]
_EXACT: Final = (False, 0, 0)


def guess_files(
    called: Iterable[Called], files: Sequence[File], lost: Collection[str]
) -> dict[str, File]:
    """By source. Each file is one source's; of whom most is known, and whom the fewest fit, comes
    first."""
    by_source: dict[str, list[Called]] = {}
    for each in called:
        if each.source and each.path:
            by_source.setdefault(each.source, []).append(each)
    fits: dict[str, list[tuple[_Misfit, int]]] = {}
    for source, some in by_source.items():
        fits[source] = sorted(
            (_misfit(some, file, lost), number)
            for number, file in enumerate(files)
            if file.lines and any(each.path in file.names for each in some)
        )

    def vagueness(source: str) -> tuple[bool, int, int]:
        is_vague = all(each.end_position < 0 for each in by_source[source])
        exact = sum(misfit[:3] == _EXACT for misfit, _ in fits[source])
        return is_vague, exact, min(map(_end, by_source[source]))

    found: dict[str, File] = {}
    taken: set[int] = set()
    for source in sorted(fits, key=vagueness):
        left = (number for _, number in fits[source] if number not in taken)
        if (best := next(left, None)) is not None:
            found[source] = files[best]
            taken.add(best)
    return found


def _misfit(called: Sequence[Called], file: File, lost: Collection[str]) -> _Misfit:
    """The smaller the better."""
    edges = {0, file.size}
    for line in file.lines:
        edges |= {line.start, line.start + len(line.beginning.encode()), line.end}
    odd = wrong = landed = 0
    time = NEVER
    for each in called:
        named = [line for line in file.lines if line.start < _end(each)]
        odd += len({each.position, each.end_position} - edges - {-1})
        if each.events >= 0 and each.end_position >= 0 and "within bytes" not in each.words:
            there = sum(line.end > each.position for line in named)
            wrong += abs(there - each.events)
        landed += sum(line.text not in lost for line in named)
        time = min([time, *(abs(line.written - each.from_time) for line in named)])
    is_beyond = any(_end(each) > file.size for each in called)
    return is_beyond, odd, wrong, landed, time


def _end(called: Called) -> int:
    """To where a file is spoken of: what is unknown beyond a byte was known up to it."""
    return called.end_position if called.end_position >= 0 else called.position


class Shipped:
    def __init__(self, seen: Seen) -> None:
        self._rows = seen.rows
        landed = {(row.source, row.position) for row in seen.rows}
        self._landed_as: dict[str, set[str]] = {}
        for row in seen.rows:
            self._landed_as.setdefault(row.text, set()).add(row.source)
        names = [((kept.record.source, kept.record.position), kept) for kept in seen.records]
        standing = {name for name, kept in names if kept.stands}
        self._all = landed | {name for name, _ in names}
        self._lost = self._all - landed - standing
        self._times: Counter[tuple[str, int]] = Counter()
        for name, kept in names:
            self._times[name] += kept.times

    def was(self, called: Called, line: Line) -> bool:
        """Whether it was shipped as the source that a finding names."""
        return (called.source, line.start) in self._all

    def was_again(self, called: Called, line: Line) -> bool:
        """Whether it was shipped as that source more than once."""
        return self._times[called.source, line.start] > 1

    def is_there_as_another(self, called: Called, line: Line) -> bool:
        """Whether it has landed as another source than the one that a finding names."""
        return bool(self._landed_as.get(line.text, set()) - {called.source})

    def log_lost(self, called: Called, line: Line) -> bool:
        """Whether the log has lost it as this source, before it landed."""
        return (called.source, line.start) in self._lost

    def rows_in(self, path: str) -> set[str]:
        """What is in a landed file now."""
        return {row.text for row in self._rows if _is_in(row, path)}

    def rows_elsewhere(self, path: str) -> set[str]:
        """What is in other landed files."""
        return {row.text for row in self._rows if not _is_in(row, path)}


def _is_in(row: Row, path: str) -> bool:
    return row.file.endswith(path)


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


def sums(
    truth: Truth, seen: Seen, verdict: Verdict, called: Sequence[Called]
) -> Iterator[Objection]:
    """Of those findings that nobody has accepted."""
    flow = verdict.flow
    if flow and flow.get("lost", 0) >= 0:
        parts = sum(flow.get(name, 0) for name in ("shipped", "filtered", "dead", "lost"))
        if flow.get("read", 0) != parts:
            yield Objection("sums", f"read {flow.get('read')}, and its parts are {parts}")
    missing = [each for each in called if each.kind in {"missing", "unnamed"}]
    counts = [each.events if each.events >= 0 else each.offsets for each in missing]
    if all(count >= 0 for count in counts):
        named = sum(counts)
        if named != verdict.missing and not any("too" in each.words for each in missing):
            yield Objection("sums", f"missing {verdict.missing}, findings add up to {named}")
        of_hosts = sum(each.events for each in missing if each.host and each.events >= 0)
        if of_hosts != verdict.hosts_missing:
            said = f"findings name {of_hosts} of hosts, the hosts miss {verdict.hosts_missing}"
            yield Objection("sums", said)
    if not truth.landed and verdict.landed_events not in {-1, len(seen.rows)}:
        said = f"{verdict.landed_events} events at hdfs, and {len(seen.rows)} rows"
        yield Objection("sums", said)
    if (
        verdict.state in {"missing", "unknown"}
        and verdict.host_states
        and (set(verdict.host_states) == {"complete"} and any(each.host for each in called))
    ):
        yield Objection("sums", f"{verdict.state}, and each host of it is complete")


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

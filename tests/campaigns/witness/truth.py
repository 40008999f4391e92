"""What was really written, and what was really done: the only thing that the judge believes.

A *file* here is one file from its making to its end, under whatever names; after it was truncated
it is another one. Each line is known by its text, which no other line has.
"""

from collections.abc import Container, Iterator
from pathlib import PurePath
from typing import Final

import msgspec

from tests.campaigns.reading import Row

NEVER: Final = 1 << 60
LAST_LINE: Final = 2  # seconds after which an agent takes a line for whole that has no newline
KNOWN_COPY: Final = 1024  # bytes; of a smaller file that is gone nobody knows another as its copy
TICK: Final = 20_000_000  # nanoseconds; of the clock of a file system
CLOCKS_DIFFER: Final = 50  # milliseconds, as two processes measure


class Line(msgspec.Struct):
    """One line of one file. `end` is the byte after its newline, or after its last one where that
    never came. `beginning` stood there alone before the rest did, since `begun`."""

    text: str
    file: "File"
    number: int
    start: int
    end: int
    written: int  # milliseconds since 1970
    beginning: str = ""
    begun: int = NEVER
    unfinished: bool = False  # it has no newline
    halved: bool = False  # one agent has read it in two, another one as it is

    @property
    def stood_half(self) -> bool:
        """Whether its beginning stood alone for long enough to be taken for a whole line."""
        is_long = self.written - self.begun >= LAST_LINE * 1000 - CLOCKS_DIFFER
        return bool(self.beginning) and is_long

    @property
    def rest(self) -> str:
        return self.text[len(self.beginning) :]

    def halves(self) -> tuple["Line", "Line"]:
        """What it is to who took its beginning for a line."""
        middle = self.start + len(self.beginning.encode())
        return (
            Line(self.beginning, self.file, self.number, self.start, middle, self.begun),
            Line(self.rest, self.file, self.number, middle, self.end, self.written),
        )

    def __str__(self) -> str:
        return f"{self.text[:24].rstrip()} ({self.file.names[0]}, bytes {self.start} to {self.end})"


class File(msgspec.Struct):
    """`names` are all paths that it, or a copy of it, ever had; the first one first."""

    label: str
    number: int
    names: list[str]
    lines: list[Line] = []
    size: int = 0
    ended: int = NEVER  # when it was truncated, compressed or its last name was removed
    copied: int = NEVER  # when it was truncated, and a copy was left
    hidden: int = NEVER  # when it lost its last name that a pattern matches
    original_gone: int = NEVER  # when the file that it was copied from was no more, copy or not
    copied_at_once: bool = False  # as soon as it was written, under a name that a pattern matches
    before: "File | None" = None  # what the same inode was before it was truncated
    cut: bool = False  # it ended in place, to nothing
    made: int = 0  # or when the same inode was truncated, from when on it is this file
    folder_made: int = 0  # where it was made, if the folder had been removed before
    little_known: bool = False  # to an agent that has lost its data directory since

    def lives(self) -> "Iterator[File]":
        """This one, and all that the same inode was before."""
        life: File | None = self
        while life is not None:
            yield life
            life = life.before

    @property
    def may_be_no_copy(self) -> bool:
        """Whether nothing shows that it is one: it is small, or its times are those of a file that
        was written anew, and its original is gone. To an agent that has forgotten all of it, and
        knew little, the original is gone even if it was emptied only."""
        is_unknown = self.size < KNOWN_COPY or self.copied_at_once
        is_forgotten = self.copied != NEVER and self.little_known
        return is_forgotten or (self.original_gone != NEVER and is_unknown)

    @property
    def can_be_found(self) -> bool:
        """Whether it is there; a copy of a file that is gone is known by what it begins with."""
        return self.ended == NEVER and not self.may_be_no_copy

    def is_forgotten(self, known_until: int) -> None:
        """By the only agent that knew of it, which looked at it until then."""
        known = max((each.end for each in self.lines if each.written <= known_until), default=0)
        self.little_known = self.little_known or 0 < known < KNOWN_COPY

    def inode_is_gone(self, moment: int) -> None:
        for life in self.lives():
            if life is not self and life.original_gone == NEVER:
                life.original_gone = moment


class Change(msgspec.Struct, frozen=True):
    """Something came to a folder, went from it, or was cut there."""

    time: int
    folder: str
    what: str


class Blind(msgspec.Struct):
    """A time in which the agent did not look: dead, or frozen."""

    since: int
    until: int = NEVER
    why: str = "dead"


class Truth(msgspec.Struct):
    host: str
    topic: str
    files: list[File] = []
    changes: list[Change] = []
    blind: list[Blind] = []
    done: set[str] = set()  # verbs of the actions that were carried out
    forgotten: list[int] = []  # when the agent's data directory was spoilt
    landed: dict[str, list[Row]] = {}  # spoilt landed files: their rows
    foreign: set[str] = set()  # messages of other producers, as they send them
    unloaded: str = ""  # why no load of it came through in the end
    since: int = 0
    first_look: int = 0  # of the agent: what was gone before is none of its business
    first_start: int = 0  # when the first of its agents had looked: later ones may be new as well
    any_leads: bool = False  # whether a replica may lead that was not in sync
    clock: float = 0.0  # the most that the agent's clock was ever wrong, in seconds

    def lines(self) -> Iterator[Line]:
        for file in self.files:
            yield from file.lines

    def divide(self, texts: Container[str]) -> list[Line]:
        """Lines whose beginning stood alone, and was taken for a line, are two from now on, unless
        another agent has read them whole. Those of which that must not be, as it did not stand for
        so long, are returned."""
        too_early = []
        for file in self.files:
            found: list[Line] = []
            for line in file.lines:
                in_two = line.beginning and not line.unfinished
                if in_two and (line.beginning in texts or line.rest in texts):
                    line.halved = line.text in texts
                    found += (line,) if line.halved else line.halves()
                    if not line.stood_half:
                        too_early.append(line)
                else:
                    found.append(line)
            file.lines = found
        return too_early

    def is_forgotten(self) -> None:
        """The data directory of an agent that is dead was removed."""
        dead_since = self.blind[-1].since if self.blind else NEVER
        for file in self.files:
            file.is_forgotten(dead_since)

    def watched(self, time: int) -> bool:
        """Whether the agent looked then."""
        return not any(each.since <= time <= each.until for each in self.blind)

    def watched_between(self, since: int, until: int) -> bool:
        """Whether the agent looked once in that time."""
        blind_until = since
        for each in sorted(self.blind, key=lambda each: each.since):
            if each.since <= blind_until:
                blind_until = max(blind_until, each.until)
        return blind_until < until

    def read_at_last(self, line: Line) -> int:
        """When the agent has come to it at the latest: that is its event's time."""
        blind = (each.until for each in self.blind if each.since <= line.written <= each.until)
        return max(blind, default=line.written)

    def changed(self, folder: str) -> Iterator[int]:
        """When names changed there. To an agent whose clock is wrong all folders may have changed
        just when it looked: when they were made, is when they changed, too."""
        if self.clock:
            yield self.since
        for each in self.changes:
            if not folder or folder in {each.folder, str(PurePath(each.folder).parent)}:
                yield each.time

    def must_arrive(self, line: Line) -> bool:
        """What was gone, or had no name to be found by, before its agent was there, need not."""
        return min(line.file.ended, line.file.hidden) >= self.first_look

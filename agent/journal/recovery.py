"""The journal read: what it holds, where it goes on, and what to say if it is damaged.

The newest file that stands is read. A file stands from its entry STANDS on: before it, the one of
the generation before is current, and holds the same. So

- a torn end is cut off. As a rule the entry was not finished, and nobody was told that it was; but
  if power was lost it may have been, and what it said of bytes shipped is not known any more;
- a newest file that does not stand yet is none;
- damage before STANDS costs nothing as long as the file before is whole: what it ends with is what
  the newer one begins with;
- damage behind STANDS loses what follows: sources go back to where they were, and the last look at
  files is the one that stands before it. What is whole behind it is read all the same for what
  stays true (`replay.salvage`);
- a file that has lost its end is whole, and only what it had handed out to the ledger tells
  (`ledger_numbers`): that is damage, too.

Reads only; changes nothing on disk.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from agent.errors import JournalError
from agent.journal.binding import Binding
from agent.journal.contents import JournalContents, Unfitting
from agent.journal.entries import BeginEntry, EntryKind
from agent.journal.frames import VERSION, FrameFault, JournalFrame, JournalFrameReader
from agent.journal.replay import apply, decode_begin, salvage

_KINDS: Final = frozenset(EntryKind)


class JournalOwner(msgspec.Struct, frozen=True):
    """Whose journal it is. `salt` is what its frames' CRCs begin with."""

    agent_id: str
    binding: Binding
    salt: int


class RecoveredJournal(msgspec.Struct):
    """`path` can be appended to from `end` on, unless there is damage. `stood_at` is where what it
    holds of its own begins."""

    owner: JournalOwner
    contents: JournalContents
    generation: int
    path: Path
    stood_at: int = 0
    end: int = 0
    is_torn: bool = False
    damage: str | None = None


def recover(paths: Sequence[tuple[int, Path]], *, ledger: bool = True) -> RecoveredJournal:
    """From generations and their files, the newest last. Raises JournalError.

    Without `ledger` statements are nothing to anybody, and left out.
    """
    for index in range(len(paths) - 1, -1, -1):
        with _Reading(*paths[index], ledger) as reading:
            found = _read(reading, paths[:index])
        if found is not None:
            return found
    names = " and ".join(path.name for _, path in paths)
    raise JournalError(
        f"the journal in {paths[-1][1].parent} cannot be read: {names} are damaged from their "
        "beginning. To begin anew, move them away: all files are then read again, as an agent does "
        "that was just installed"
    )


def hold_against(found: RecoveredJournal, given: int) -> None:
    """The numbers of ledger entries below `given` were handed out, whatever the journal knows."""
    known = found.contents.ledger_seq
    if known >= given:
        return
    found.contents.ledger_seq = given
    if found.damage is None:
        found.damage = (
            f"{found.path} has lost its end: it knows of {known} entries of the ledger, and {given}"
            f" were handed out. {_loss('Its later entries')}"
        )


class _Reading:
    """One file, read from its beginning on."""

    def __init__(self, generation: int, path: Path, ledger: bool) -> None:
        self.generation = generation
        self.path = path
        self.ledger = ledger

    def __enter__(self) -> "_Reading":
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise JournalError(f"{self.path}: {error.strerror}") from error
        self._frames = JournalFrameReader(self._fd)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    @property
    def size(self) -> int:
        return self._frames.size

    def begin(self) -> tuple[JournalOwner, int] | FrameFault:
        """Whose it is, and where the next entry is."""
        frame = self.at(0)
        if isinstance(frame, JournalFrame) and frame.kind == EntryKind.BEGIN:
            owner = _owner(decode_begin(frame.meta))
            self.believe(owner)
            return owner, frame.end
        return frame if isinstance(frame, FrameFault) else FrameFault(0, torn=frame is None)

    def believe(self, owner: JournalOwner) -> None:
        self._frames.salt = owner.salt

    def at(self, position: int) -> JournalFrame | FrameFault | None:
        try:
            frame = self._frames.at(position)
        except OSError as error:  # the disk cannot read it
            raise JournalError(f"{self.path}: {error}") from error
        if isinstance(frame, JournalFrame):
            self._check_version(frame)
        return frame

    def salvage(self, contents: JournalContents, position: int) -> int:
        """What holds from there on, whatever was lost; how many entries there are."""
        count = 0
        for frame in self._frames.whole_after(position):
            self._check_version(frame)
            salvage(contents, frame)
            count += 1
        return count

    def stands_after(self, position: int) -> JournalFrame | None:
        frames = self._frames.whole_after(position)
        return next((frame for frame in frames if frame.kind == EntryKind.STANDS), None)

    def _check_version(self, frame: JournalFrame) -> None:
        if frame.version > VERSION or frame.kind not in _KINDS:
            raise JournalError(
                f"{self.path} was written by a newer Penstock (entry of kind {frame.kind}, format "
                f"{frame.version}; this one knows format {VERSION}). Run that one"
            )


def _read(reading: _Reading, before: Sequence[tuple[int, Path]]) -> RecoveredJournal | None:
    """None if the file does not stand, and the one before does."""
    began = reading.begin()
    if isinstance(began, FrameFault):
        return None if began.torn else _with_predecessor(reading, 0, before)
    owner, position = began
    contents = JournalContents(owner.agent_id, keeps_statements=reading.ledger)
    found = RecoveredJournal(owner, contents, reading.generation, reading.path)
    while True:
        frame = reading.at(position)
        if frame is None or (isinstance(frame, FrameFault) and frame.torn):
            return None
        if isinstance(frame, FrameFault) or not _applied(contents, frame):
            return _with_predecessor(reading, frame.position, before)
        position = frame.end
        if frame.kind == EntryKind.STANDS:
            found.stood_at = position
            return _go_on(reading, found)


def _with_predecessor(
    reading: _Reading, damaged_at: int, before: Sequence[tuple[int, Path]]
) -> RecoveredJournal | None:
    """The beginning is damaged: what the file before ends with is what this one begins with."""
    if not before:
        return None
    found = recover(before, ledger=reading.ledger)
    reading.believe(found.owner)
    where = f"{reading.path} is damaged at byte {damaged_at} of {reading.size}"
    stands = reading.stands_after(damaged_at)
    if stands is None:
        lost = reading.salvage(found.contents, damaged_at) and reading.size - damaged_at
        words = f"{where}: the file before it, {found.path.name}, is used. {_loss(_bytes(lost))}"
        found.generation = reading.generation
        found.damage = _joined(found.damage, words)
        return found
    repaired = RecoveredJournal(
        found.owner, found.contents, reading.generation, reading.path, stands.end
    )
    words = f"{where}; nothing is lost by it, as {found.path.name} before it holds the same."
    repaired.damage = _joined(found.damage, words)
    looked = found.contents.looked.copy()
    _go_on(reading, repaired)
    if found.damage:
        repaired.contents.looked |= looked  # as behind damage in one file
    return repaired


def _go_on(reading: _Reading, found: RecoveredJournal) -> RecoveredJournal:
    """All that follows STANDS."""
    position = found.stood_at
    while True:
        frame = reading.at(position)
        if frame is None or (isinstance(frame, FrameFault) and frame.torn):
            found.end, found.is_torn = position, frame is not None
            return found
        if isinstance(frame, FrameFault) or not _applied(found.contents, frame):
            break
        position = frame.end
    reading.salvage(found.contents, position + 1)
    where = f"{reading.path} is damaged at byte {position} of {reading.size}"
    words = f"{where}: it is used up to there. {_loss(_bytes(reading.size - position))}"
    found.damage = _joined(found.damage, words)
    return found


def _applied(contents: JournalContents, frame: JournalFrame) -> bool:
    try:
        apply(contents, frame)
    except Unfitting:
        return False
    return True


def _bytes(size: int) -> str:
    return f"Up to {size} bytes of the journal"


def _loss(what: str) -> str:
    return (
        f"{what} are lost: lines that they brought forward are read again, and those that had been "
        "shipped come twice, most of them with the same source and seq; what the ledger had not "
        "said of them yet is said again"
    )


def _joined(before: str | None, words: str) -> str:
    return f"{before} {words}" if before else words


def _owner(entry: BeginEntry) -> JournalOwner:
    binding = Binding(entry.machine_id, os.fsdecode(entry.path), entry.device, entry.inode)
    return JournalOwner(entry.agent_id, binding, entry.salt)


def begin_entry(owner: JournalOwner, generation: int) -> BeginEntry:
    binding = owner.binding
    return BeginEntry(
        owner.salt,
        generation,
        owner.agent_id,
        binding.machine_id,
        os.fsencode(binding.path),
        binding.device,
        binding.inode,
    )

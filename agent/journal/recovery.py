"""Reads a journal: its contents, where to append, and what was damaged. Changes nothing on disk.

It reads the newest file that is complete. A file is complete once it has the entry STANDS; before
that, the file of the previous generation is current, and has the same contents. So

- a torn end is cut off. Usually the entry was not finished, and its method had not returned; but
  after a power loss it may have been, and then what it recorded as shipped is unknown;
- a newest file without STANDS is ignored;
- damage before STANDS costs nothing as long as the previous file is whole: its end has the contents
  with which the newer one begins;
- damage after STANDS loses what follows: sources go back to their positions before it, and the last
  look at files is the one before it. Whole entries after it are still read for the facts that
  remain true (`replay.salvage`);
- a file that has lost its end looks whole; only the numbers handed out for the ledger show it
  (`ledger_numbers`): that counts as damage, too.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from agent.errors import JournalError
from agent.journal.binding import Binding
from agent.journal.contents import InconsistentEntry, JournalContents
from agent.journal.entries import BeginEntry, EntryKind
from agent.journal.frames import VERSION, FrameFault, JournalFrame, JournalFrameReader
from agent.journal.ledger_numbers import LedgerNumbers
from agent.journal.replay import apply, decode_begin, salvage
from ground.signatures.keys import PublicKey

_KINDS: Final = frozenset(EntryKind)


class JournalOwner(msgspec.Struct, frozen=True):
    """The owner of a journal. `salt` is the initial value of its frames' CRCs. `key` is the public
    key that its entries of the ledger are signed with; None if releases without keys wrote it."""

    agent_id: str
    binding: Binding
    salt: int
    key: PublicKey | None = None


class RecoveredJournal(msgspec.Struct):
    """A journal that was read. `path` can be extended at `end`, unless there is damage. `stood_at`
    is the position after the STANDS entry."""

    owner: JournalOwner
    contents: JournalContents
    generation: int
    path: Path
    stood_at: int = 0
    end: int = 0
    is_torn: bool = False
    damage: str | None = None


def recover(paths: Sequence[tuple[int, Path]], *, ledger: bool = True) -> RecoveredJournal:
    """Reads the journal from its files by generation, the newest last. Raises JournalError.

    Without `ledger`, statements are left out.
    """
    for index in range(len(paths) - 1, -1, -1):
        with _Reading(*paths[index], ledger) as reader:
            recovered_journal = _read(reader, paths[:index])
        if recovered_journal is not None:
            return recovered_journal
    names = " and ".join(path.name for _, path in paths)
    raise JournalError(
        f"cannot read the journal in {paths[-1][1].parent}: {names} are damaged at their "
        "beginning. To start with a new journal, move them away: the agent then reads all files "
        "again, like one that was just installed"
    )


def hold_against(recovered: RecoveredJournal, numbers: LedgerNumbers) -> None:
    """Notes a loss if the journal lacks ledger entries whose numbers were handed out. Its chain
    continues after them."""
    known_seq, given = recovered.contents.ledger_seq, numbers.given
    if known_seq >= given:
        return
    recovered.contents.ledger_seq = given
    recovered.contents.ledger_head = numbers.head
    if recovered.damage is None:
        recovered.damage = (
            f"{recovered.path} has lost its end: it has {known_seq} entries of the ledger, "
            f"but {given} were handed out. {_loss('Its later entries')}"
        )


class _Reading:
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
        """Returns the journal's owner, from its first entry, and the position of the next entry; or
        the fault."""
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
        except OSError as error:
            raise JournalError(f"{self.path}: {error}") from error
        if isinstance(frame, JournalFrame):
            self._check_version(frame)
        return frame

    def salvage(self, contents: JournalContents, position: int) -> int:
        """Applies whole entries after damage, as far as they remain true. Returns their number."""
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
                f"{frame.version}; this release supports format {VERSION}). Run the newer release"
            )


def _read(reading: _Reading, before: Sequence[tuple[int, Path]]) -> RecoveredJournal | None:
    """Reads a file; None if it has no STANDS, so that its predecessor counts."""
    owner_and_position = reading.begin()
    if isinstance(owner_and_position, FrameFault):
        return None if owner_and_position.torn else _with_predecessor(reading, 0, before)
    owner, position = owner_and_position
    contents = JournalContents(owner.agent_id, keeps_statements=reading.ledger)
    recovered_journal = RecoveredJournal(owner, contents, reading.generation, reading.path)
    while True:
        frame = reading.at(position)
        if frame is None or (isinstance(frame, FrameFault) and frame.torn):
            return None
        if isinstance(frame, FrameFault) or not _applied(contents, frame):
            return _with_predecessor(reading, frame.position, before)
        position = frame.end
        if frame.kind == EntryKind.STANDS:
            recovered_journal.stood_at = position
            return _go_on(reading, recovered_journal)


def _with_predecessor(
    reading: _Reading, damaged_at: int, before: Sequence[tuple[int, Path]]
) -> RecoveredJournal | None:
    """Reads a file with a damaged beginning, whose contents the end of its predecessor has."""
    if not before:
        return None
    predecessor = recover(before, ledger=reading.ledger)
    reading.believe(predecessor.owner)
    damage = f"{reading.path} is damaged at byte {damaged_at} of {reading.size}"
    counters = reading.stands_after(damaged_at)
    if counters is None:
        lost_bytes = reading.salvage(predecessor.contents, damaged_at) and reading.size - damaged_at
        message = (
            f"{damage}: its predecessor {predecessor.path.name} is used. "
            f"{_loss(_bytes(lost_bytes))}"
        )
        predecessor.generation = reading.generation
        predecessor.damage = _joined(predecessor.damage, message)
        return predecessor
    repaired_journal = RecoveredJournal(
        predecessor.owner, predecessor.contents, reading.generation, reading.path, counters.end
    )
    message = (
        f"{damage}; nothing is lost, since its predecessor {predecessor.path.name} has the same."
    )
    repaired_journal.damage = _joined(predecessor.damage, message)
    looks = predecessor.contents.looked.copy()
    _go_on(reading, repaired_journal)
    if predecessor.damage:
        repaired_journal.contents.looked |= looks  # as after damage in a single file
    return repaired_journal


def _go_on(reading: _Reading, recovered: RecoveredJournal) -> RecoveredJournal:
    position = recovered.stood_at
    while True:
        frame = reading.at(position)
        if frame is None or (isinstance(frame, FrameFault) and frame.torn):
            recovered.end, recovered.is_torn = position, frame is not None
            return recovered
        if isinstance(frame, FrameFault) or not _applied(recovered.contents, frame):
            break
        position = frame.end
    reading.salvage(recovered.contents, position + 1)
    damage = f"{reading.path} is damaged at byte {position} of {reading.size}"
    message = f"{damage}: only the part before is used. {_loss(_bytes(reading.size - position))}"
    recovered.damage = _joined(recovered.damage, message)
    return recovered


def _applied(contents: JournalContents, frame: JournalFrame) -> bool:
    try:
        apply(contents, frame)
    except InconsistentEntry:
        return False
    return True


def _bytes(size: int) -> str:
    return f"Up to {size} bytes of the journal"


def _loss(what: str) -> str:
    return (
        f"{what} are lost: their lines are read again, and those that had been shipped are shipped "
        "twice, most of them with the same source and seq; unpublished statements about them are "
        "made again"
    )


def _joined(before: str | None, words: str) -> str:
    return f"{before} {words}" if before else words


def _owner(entry: BeginEntry) -> JournalOwner:
    binding = Binding(entry.machine_id, os.fsdecode(entry.path), entry.device, entry.inode)
    key = PublicKey(entry.key) if entry.key else None
    return JournalOwner(entry.agent_id, binding, entry.salt, key)


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
        b"" if owner.key is None else owner.key.raw,
    )

"""Opens a journal: locks the directory, reads the files, and takes over a copied journal."""

import secrets
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from agent.accounting.runs import Progress, SourceId
from agent.errors import JournalError
from agent.journal import generations
from agent.journal.binding import Binding, make_private
from agent.journal.contents import JournalContents
from agent.journal.generations import GenerationFile
from agent.journal.ledger_numbers import LedgerNumbers
from agent.journal.recovery import JournalOwner, RecoveredJournal, hold_against, recover
from agent.journal.writer import made
from ground.files.directory_lock import DirectoryLock, InUse
from ground.files.file_system import write_error_words

_LOCK: Final = ".lock"
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"


class OpenedJournal(msgspec.Struct, frozen=True):
    """The file to append to, and the contents of all files together."""

    owner: JournalOwner
    contents: JournalContents
    file: GenerationFile
    generation: int
    stood_at: int
    is_torn: bool = False
    damage: str | None = None
    is_copy_of: str | None = None
    copied: str | None = None


def new_id() -> str:
    """A new id for an agent or a source: 100 random bits, unique."""
    bits = secrets.randbits(100)
    return "".join(_ALPHABET[bits >> shift & 31] for shift in range(0, 100, 5))


def lock(directory: Path) -> DirectoryLock:
    """Locks the directory for this process until the lock is closed. Raises JournalError."""
    try:
        make_private(directory)
        return DirectoryLock(directory / _LOCK)
    except InUse:
        raise JournalError(
            f"{directory} is in use by another agent. Stop that agent, or choose another `data_dir`"
        ) from None
    except OSError as error:
        raise _cannot_open(directory, error) from error


def opened(directory: Path, binding: Binding, *, ledger: bool = True) -> OpenedJournal:
    """Opens the journal in a locked directory, or creates one. Raises JournalError."""
    try:
        generations.remove_unfinished(directory)
        files = generations.found(directory)
        if not files:
            owner = _new_owner(binding)
            contents = JournalContents(owner.agent_id, keeps_statements=ledger)
            return _founded(directory, 0, owner, contents)
        recovered_journal = recover(tuple(files.items()), ledger=ledger)
        if not recovered_journal.owner.binding.is_same_directory(binding):
            return _copied(directory, max(files), recovered_journal, binding)
        hold_against(
            recovered_journal, LedgerNumbers(directory, recovered_journal.owner.agent_id).given
        )
        if recovered_journal.damage:
            return _begun_anew(directory, max(files), recovered_journal, binding)
        return _continued(directory, files, recovered_journal, binding)
    except OSError as error:
        raise _cannot_open(directory, error) from error


def _continued(
    directory: Path, files: dict[int, Path], recovered: RecoveredJournal, binding: Binding
) -> OpenedJournal:
    if recovered.owner.binding != binding:  # the same directory under another name or number
        try:
            return _begun_anew(directory, max(files), recovered, binding)
        except OSError:
            if generations.path_of(directory, max(files) + 1).exists():
                raise
            # The disk is full: the new binding can be written at a later start.
    newer_paths = [path for generation, path in files.items() if generation > recovered.generation]
    generations.remove(newer_paths)
    file = GenerationFile.reopen(recovered.path, recovered.end)
    return OpenedJournal(
        recovered.owner,
        recovered.contents,
        file,
        recovered.generation,
        recovered.stood_at,
        recovered.is_torn,
    )


def _begun_anew(
    directory: Path, newest: int, recovered: RecoveredJournal, binding: Binding
) -> OpenedJournal:
    """Writes the contents to a new file; the file that was read stays as its predecessor."""
    owner = replace(recovered.owner, binding=binding)
    file = made(directory, newest + 1, owner, recovered.contents)
    generations.remove(generations.before(recovered.path))
    return OpenedJournal(
        *(owner, recovered.contents, file, newest + 1, file.size, recovered.is_torn),
        damage=recovered.damage,
    )


def _copied(
    directory: Path, newest: int, recovered: RecoveredJournal, binding: Binding
) -> OpenedJournal:
    copied_contents = recovered.contents
    owner = _new_owner(binding)
    contents = JournalContents(owner.agent_id, keeps_statements=copied_contents.keeps_statements)
    for source in copied_contents.sources():
        progress = Progress(source.progress.position, mark=source.progress.mark)
        contents.source(replace(source, id=SourceId(new_id()), progress=progress))
    events = sum(batch.outgoing.batch.records for batch in copied_contents.open.values())
    message = (
        f"{directory} is a copy of the data_dir of agent {copied_contents.agent_id} "
        f"({recovered.owner.binding}). This agent is {owner.agent_id} from now on, and continues "
        "the files at their positions as new sources. It leaves "
        f"{len(copied_contents.open)} unacknowledged batches with {events} events, and "
        f"{len(copied_contents.statements)} statements for the ledger, to the other agent"
    )
    new_file = _founded(directory, newest, owner, contents)
    return replace(
        new_file,
        is_copy_of=copied_contents.agent_id,
        copied=message,
        is_torn=recovered.is_torn,
        damage=recovered.damage,
    )


def _founded(
    directory: Path, newest: int, owner: JournalOwner, contents: JournalContents
) -> OpenedJournal:
    """Creates a journal with two files, so that the newest always has a predecessor."""
    previous_file = made(directory, newest + 1, owner, contents)
    previous_file.close()
    file = made(directory, newest + 2, owner, contents)
    generations.remove(generations.before(previous_file.path))
    return OpenedJournal(owner, contents, file, newest + 2, file.size)


def _new_owner(binding: Binding) -> JournalOwner:
    return JournalOwner(new_id(), binding, secrets.randbits(32))


def _cannot_open(directory: Path, error: OSError) -> JournalError:
    return JournalError(
        f"cannot open the journal in {directory}: {write_error_words(error, directory)}"
    )

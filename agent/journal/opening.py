"""Opens a journal: locks the directory, reads the files, and takes over a copied journal.

The directory also has the agent's key, in the file `signing-key`: ledger entries are signed with
it, and the names of journal and sources are made of it (ledger/source_ids.py).

    a new journal, or a copied one        a new key, also if there is one: it was another journal's
    a journal of an older release         keeps its name, and gets a key
    a journal whose key is gone           a new key, which the audit does not know; it is logged
"""

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
from ground.signatures import keys
from ground.signatures.keys import BadKey, PublicKey, SigningKey
from ledger.source_ids import journal_id, new_source_id

_LOCK: Final = ".lock"


class OpenedJournal(msgspec.Struct, frozen=True):
    """The file to append to, and the contents of all files together."""

    owner: JournalOwner
    contents: JournalContents
    key: SigningKey
    file: GenerationFile
    generation: int
    stood_at: int
    is_torn: bool = False
    damage: str | None = None
    is_copy_of: str | None = None
    copied: str | None = None
    lost_key: str | None = None


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
            key = _new_key(directory)
            owner = _new_owner(binding, key.public)
            contents = JournalContents(owner.agent_id, keeps_statements=ledger)
            return _founded(directory, 0, owner, contents, key)
        recovered_journal = recover(tuple(files.items()), ledger=ledger)
        if not recovered_journal.owner.binding.is_same_directory(binding):
            return _copied(directory, max(files), recovered_journal, binding)
        key = SigningKey.kept(directory / keys.FILE_NAME)
        hold_against(recovered_journal, LedgerNumbers(directory, recovered_journal.owner.agent_id))
        owner = replace(recovered_journal.owner, binding=binding, key=key.public)
        if recovered_journal.damage:
            return _begun_anew(directory, max(files), recovered_journal, owner, key)
        return _continued(directory, files, recovered_journal, owner, key)
    except BadKey as error:
        raise JournalError(f"cannot use the key of this agent: {error}") from error
    except OSError as error:
        raise _cannot_open(directory, error) from error


def _continued(
    directory: Path,
    files: dict[int, Path],
    recovered: RecoveredJournal,
    owner: JournalOwner,
    key: SigningKey,
) -> OpenedJournal:
    if recovered.owner != owner:  # the directory has another name or number, or the key is new
        try:
            return _begun_anew(directory, max(files), recovered, owner, key)
        except OSError:
            if generations.path_of(directory, max(files) + 1).exists():
                raise
            # The disk is full: the new owner can be written at a later start.
    newer_paths = [path for generation, path in files.items() if generation > recovered.generation]
    generations.remove(newer_paths)
    file = GenerationFile.reopen(recovered.path, recovered.end)
    return OpenedJournal(
        recovered.owner,
        recovered.contents,
        key,
        file,
        recovered.generation,
        recovered.stood_at,
        recovered.is_torn,
        lost_key=_lost_key(recovered.owner, key),
    )


def _begun_anew(
    directory: Path, newest: int, recovered: RecoveredJournal, owner: JournalOwner, key: SigningKey
) -> OpenedJournal:
    """Writes the contents to a new file; the file that was read stays as its predecessor."""
    file = made(directory, newest + 1, owner, recovered.contents)
    generations.remove(generations.before(recovered.path))
    return OpenedJournal(
        *(owner, recovered.contents, key, file, newest + 1, file.size, recovered.is_torn),
        damage=recovered.damage,
        lost_key=_lost_key(recovered.owner, key),
    )


def _lost_key(owner: JournalOwner, key: SigningKey) -> str | None:
    """The message that the journal was signed with another key; None if it was not."""
    if owner.key is None or owner.key == key.public:
        return None
    return (
        f"agent {owner.agent_id} signed with the key {owner.key.fingerprint} until now, and "
        f"{keys.FILE_NAME} is gone or was replaced. It signs with {key.public.fingerprint} from "
        "now on. The audit rejects what a journal signs with an unknown key: put the former key "
        "back, or start with another data_dir, as another agent"
    )


def _copied(
    directory: Path, newest: int, recovered: RecoveredJournal, binding: Binding
) -> OpenedJournal:
    copied_contents = recovered.contents
    key = _new_key(directory)
    owner = _new_owner(binding, key.public)
    contents = JournalContents(owner.agent_id, keeps_statements=copied_contents.keeps_statements)
    for source in copied_contents.sources():
        progress = Progress(source.progress.position, mark=source.progress.mark)
        contents.source(replace(source, id=SourceId(new_source_id(key.public)), progress=progress))
    events = sum(batch.outgoing.batch.records for batch in copied_contents.open.values())
    message = (
        f"{directory} is a copy of the data_dir of agent {copied_contents.agent_id} "
        f"({recovered.owner.binding}). This agent is {owner.agent_id} from now on, and continues "
        "the files at their positions as new sources. It leaves "
        f"{len(copied_contents.open)} unacknowledged batches with {events} events, and "
        f"{len(copied_contents.statements)} statements for the ledger, to the other agent"
    )
    new_file = _founded(directory, newest, owner, contents, key)
    return replace(
        new_file,
        is_copy_of=copied_contents.agent_id,
        copied=message,
        is_torn=recovered.is_torn,
        damage=recovered.damage,
    )


def _founded(
    directory: Path, newest: int, owner: JournalOwner, contents: JournalContents, key: SigningKey
) -> OpenedJournal:
    """Creates a journal with two files, so that the newest always has a predecessor."""
    previous_file = made(directory, newest + 1, owner, contents)
    previous_file.close()
    file = made(directory, newest + 2, owner, contents)
    generations.remove(generations.before(previous_file.path))
    return OpenedJournal(owner, contents, key, file, newest + 2, file.size)


def _new_key(directory: Path) -> SigningKey:
    return SigningKey.renewed(directory / keys.FILE_NAME)


def _new_owner(binding: Binding, key: PublicKey) -> JournalOwner:
    return JournalOwner(journal_id(key), binding, secrets.randbits(32), key)


def _cannot_open(directory: Path, error: OSError) -> JournalError:
    return JournalError(
        f"cannot open the journal in {directory}: {write_error_words(error, directory)}"
    )

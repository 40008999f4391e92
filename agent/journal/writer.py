"""Writes journal entries from several threads, and starts a new file when the current one is large.

One lock is shared with the journal: a thread that changes contents holds it, appends the entry, and
changes the contents if that succeeded. So entries are in the order of changes.

With `sync`, an entry counts once it is flushed. One thread flushes for all entries written before
it began, without the lock; the others wait, and then check whether theirs were included.

A separate thread fills a new file from a copy of the contents, while others append to the old one;
entries appended meanwhile are copied, and only the last of them under the lock. After a failed
flush it is unknown what is on disk: then the complete contents are written to a new file at once,
before anything else.
"""

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from agent.errors import JournalError, JournalFull
from agent.journal import generations
from agent.journal.contents import JournalContents
from agent.journal.entries import EntryKind
from agent.journal.frames import Buffer, framed
from agent.journal.generations import GenerationFile
from agent.journal.recovery import JournalOwner, begin_entry
from agent.journal.replay import encode, snapshot, stands
from ground.files.file_system import write_error_words

_LAST_BIT: Final = 256 * 1024
_MOST_ROUNDS: Final = 50
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class JournalWriter:
    """Appends to the current file. `written` and `durable` count bytes from the opening on."""

    def __init__(
        self,
        file: GenerationFile,
        generation: int,
        snapshot_size: int,
        owner: JournalOwner,
        contents: JournalContents,
        *,
        sync: bool,
        limit_bytes: int,
    ) -> None:
        self.lock = threading.Lock()
        self.before_flush: Callable[[], None] = lambda: None
        """Flushes what the entries are about. May raise OSError."""
        self.longest_stand = 0.0  # the longest wait for a new file, in seconds
        self.written = 0
        self.generation = generation
        self.salt: Final = owner.salt
        self._changed = threading.Condition(self.lock)
        self._owner = owner
        self._contents = contents
        self._sync = sync
        self._limit = limit_bytes
        self._durable = 0
        self._syncing = False
        self._unsure: OSError | None = None  # a flush has failed
        self._owed: list[Buffer] = []
        self._not_written: str | None = None
        self._not_renewed: str | None = None
        self._retired: list[GenerationFile] = []
        self._renewing = False
        self._renew_from = 0
        self._closed = False
        self._file = file
        self._snapshot_size = snapshot_size

    @property
    def size(self) -> int:
        return self._file.size

    @property
    def trouble(self) -> str | None:
        """The error of the last write or new file."""
        return self._not_written or self._not_renewed

    # With the lock

    def check_open(self) -> None:
        if self._closed:
            raise JournalError(f"{self._file.path} is closed")

    def prepare(self) -> None:
        """Makes sure that there is a valid file, before anything is changed."""
        while self._is_unsure:
            self.check_open()
            if self._renewing:
                self._changed.wait()  # it will fail, since the old file is not valid
            else:
                self._writing(self._renew_at_once)
        self.check_open()

    def append(self, pieces: Sequence[Buffer]) -> None:
        """Appends an entry. Raises JournalFull without having written anything."""
        try:
            self._keep_room(pieces)
            self._append(pieces)
        except OSError as error:
            if error.errno not in _NO_ROOM or not self._makes_room():
                raise self._full(error) from error
            self._writing(lambda: self._append(pieces))

    def append_or_postpone(self, pieces: Sequence[Buffer]) -> None:
        """Appends now if possible, otherwise before the next entry."""
        self._owed += pieces
        if self._is_unsure:
            return
        try:
            self._append(())
        except OSError as error:
            self._not_written = self._message(error)

    @property
    def has_postponed(self) -> bool:
        """Whether postponed entries wait for the next entry."""
        return bool(self._owed)

    def postpone(self, pieces: Sequence[Buffer]) -> None:
        """Postpones an entry until the next entry is written."""
        self._owed += pieces

    def renew_if_due(self) -> None:
        """Starts a new file if the current one has grown by its limit, and few open batches must be
        written again; or by twice its limit."""
        grown_bytes = self._file.size - self._snapshot_size
        limit = max(self._limit, self._snapshot_size)
        if self._renewing or self._owed or self._is_unsure:
            return  # the file lacks entries that the contents have
        if grown_bytes <= max(limit, self._renew_from):
            return
        if self._contents.open_bytes > self._limit // 8 and grown_bytes <= 2 * limit:
            return
        self._renewing = True
        arguments = (self._contents.copy(), self._file.size)
        threading.Thread(target=self._renew, args=arguments, name="journal", daemon=True).start()

    # Without the lock

    def make_durable(self, mark: int, *, anyway: bool = False) -> None:
        """Waits until everything written before `mark` is on disk, if `sync` is configured or
        `anyway` is set."""
        if not (self._sync or anyway):
            return
        with self.lock:
            while self._durable < mark:
                if self._unsure:
                    raise JournalFull(self._message(self._unsure))
                if self._syncing:
                    self._changed.wait()
                elif not self._flush() and not self._sync:
                    return

    def close(self) -> None:
        with self.lock:
            self._closed = True
            while self._renewing or self._syncing:
                self._changed.wait()
            try:
                self._file.sync()
                self._durable = self.written
            except OSError as error:
                self._unsure = error
            self._file.close()
            self._changed.notify_all()

    # Implementation

    def _append(self, pieces: Sequence[Buffer]) -> None:
        all_pieces = [*self._owed, *pieces] if self._owed else pieces
        self.written += self._file.append(all_pieces)
        self._owed.clear()
        self._not_written = None

    def _writing(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            raise self._full(error) from error

    def _keep_room(self, pieces: Sequence[Buffer]) -> None:
        """Raises ENOSPC if the disk would lack room for a new file."""
        room = self._file.room
        needed_bytes = sum(map(len, pieces)) + self._snapshot_size + self._contents.open_bytes
        if room is not None and room < needed_bytes + _LAST_BIT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _makes_room(self) -> bool:
        """Starts a new file if that makes room. If there is no room for it, removes the previous
        file."""
        older_files = generations.before(self._file.path)
        surplus_sizes = [
            self._file.size - self._snapshot_size,
            *(path.stat().st_size for path in older_files),
        ]
        if self._renewing or max(surplus_sizes) <= self._limit // 8:
            return False
        try:
            self._renew_at_once()
        except OSError as error:
            if error.errno not in _NO_ROOM or not older_files:
                return False
            generations.remove(older_files)
        return True

    def _full(self, error: OSError) -> JournalFull:
        self._not_written = self._message(error)
        return JournalFull(self._not_written)

    def _message(self, error: OSError) -> str:
        return (
            f"cannot write the journal {self._file.path}: "
            f"{write_error_words(error, self._file.path)}. "
            "The agent reads nothing until it can"
        )

    def _flush(self) -> bool:
        """Flushes the file. Returns whether it succeeded; a failure counts only with `sync`."""
        file, written = self._file, self.written
        failure: OSError | None = None
        self._syncing = True
        self.lock.release()
        try:
            self.before_flush()
            file.sync()
        except OSError as error:
            failure = error
        finally:
            self.lock.acquire()
            self._syncing = False
            self._close_retired()
            self._changed.notify_all()
        if failure is None:
            # Without `sync`, the end of a file that was started meanwhile is not on disk.
            if self._sync or file is self._file:
                self._durable = max(self._durable, written)
        elif self._sync and file is self._file:
            self._unsure = failure
        return failure is None

    def _renew_at_once(self) -> None:
        """Writes the contents to a new file, holding the lock all the time."""
        old_file = self._file
        file = begun(self._directory, self.generation + 1, self._owner, self._contents)
        try:
            file.publish()
            self._append_stands(file, snapshot_size=file.size)
        except OSError:
            file.discard()
            raise
        self._owed.clear()  # the contents have it
        self._retire(old_file)
        generations.remove(generations.before(old_file.path))

    def _renew(self, contents: JournalContents, position: int) -> None:
        """Fills a new file, in its own thread. The old one has `contents` at `position`."""
        file, old_file = None, self._file
        try:
            file = begun(self._directory, self.generation + 1, self._owner, contents)
            snapshot_size = file.size
            for _ in range(_MOST_ROUNDS):
                if (end := old_file.size) - position <= _LAST_BIT:
                    break
                file.copy_from(old_file, position, end)
                position = end
            file.publish()
            with self.lock:
                self._switch(file, position, snapshot_size)
            self._not_renewed = None
        except OSError as error:
            reason = write_error_words(error, self._file.path)
            self._not_renewed = f"cannot start a new journal file: {reason}"
            self._renew_from = old_file.size - self._snapshot_size + self._limit // 8
            if file is not None and file is not self._file:
                file.discard()
        finally:
            if old_file is not self._file:
                with contextlib.suppress(OSError):  # leftover files are harmless
                    generations.remove(generations.before(old_file.path))
            with self.lock:
                self._renewing = False
                self._changed.notify_all()
                if old_file is not self._file:
                    self._retire(old_file)

    def _switch(self, file: GenerationFile, position: int, snapshot_size: int) -> None:
        started_at = time.monotonic()
        if self._is_unsure:
            raise OSError("the state of the previous file is unknown")
        file.copy_from(self._file, position, self._file.size)
        self._append_stands(file, snapshot_size)
        self.longest_stand = max(self.longest_stand, time.monotonic() - started_at)

    def _append_stands(self, file: GenerationFile, snapshot_size: int) -> None:
        """Makes a file the current one by appending STANDS. Raises OSError before that."""
        file.append(framed(EntryKind.STANDS, stands(self._contents), salt=self.salt))
        self._file = file
        self._snapshot_size = snapshot_size
        self._renew_from = 0
        self.generation += 1
        self._unsure = None
        if self._sync:
            try:
                file.sync()
                self._durable = self.written
            except OSError as error:
                self._unsure = error

    def _retire(self, file: GenerationFile) -> None:
        self._retired.append(file)
        if not self._syncing:  # that may be this one
            self._close_retired()

    def _close_retired(self) -> None:
        for file in self._retired:
            file.close()
        self._retired.clear()

    @property
    def _is_unsure(self) -> bool:
        """Whether the file may differ from what was written to it."""
        return self._unsure is not None or self._file.uncut

    @property
    def _directory(self) -> Path:
        return self._file.path.parent


def begun(
    directory: Path, generation: int, owner: JournalOwner, contents: JournalContents
) -> GenerationFile:
    """Creates a file with the contents, but without STANDS and its final name. Raises OSError."""
    file = GenerationFile.make(directory, generation)
    try:
        file.append(framed(EntryKind.BEGIN, encode(begin_entry(owner, generation)), salt=0))
        for kind, meta, body in snapshot(contents):
            file.append(framed(kind, meta, body, salt=owner.salt))
    except OSError:
        file.discard()
        raise
    return file


def made(
    directory: Path, generation: int, owner: JournalOwner, contents: JournalContents
) -> GenerationFile:
    """Creates a complete file under its final name. Raises OSError."""
    file = begun(directory, generation, owner, contents)
    try:
        file.append(framed(EntryKind.STANDS, stands(contents), salt=owner.salt))
        file.publish()
    except OSError:
        file.discard()
        raise
    return file

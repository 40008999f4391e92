"""Stores the next number of ledger entries outside the journal, in the file `ledger-numbers`.

A journal that has lost its end looks whole, only older. It would reuse numbers that are already in
the ledger, and readers would take the new entries for the old ones. So the data directory has a
small file with the agent's id, its next number, and the head of the chain (ledger/proofs.py) before
that number. It is written and synced between journalling an entry and sending it, usually once in
`ledger_interval`.

    after a kill, a clean stop or a power loss     at least the number of what was sent

It is never ahead of what the journal once had, so a journal with a lower number has lost entries. A
file that is missing, damaged or another agent's is ignored and replaced. If it cannot be written,
the agent logs that, and goes on.

The head has a record of its own behind that of the number. Releases without signatures read and
write the first record only. Without a head of the same number, the chain begins a new segment.
"""

import logging
import os
import threading
from pathlib import Path
from struct import Struct
from typing import Final

from crc32c import crc32c

from agent.errors import JournalError
from ground.files.durable_files import sync_directory
from ledger.proofs import NO_HEAD

FILE_NAME: Final = "ledger-numbers"

_RECORD: Final = Struct("<20sq")  # the agent's id, the next number
_SUM: Final = Struct("<I")
_SIZE: Final = _RECORD.size + _SUM.size
_HEAD: Final = Struct("<q32s")  # the next number, the head before it
_HEAD_SIZE: Final = _HEAD.size + _SUM.size
_MODE: Final = 0o600

log = logging.getLogger(__name__)


class LedgerNumbers:
    """The numbers of an agent's ledger entries. Thread-safe. Numbers below `given` were handed
    out; `head` is the head of the chain after them, as read from the file."""

    def __init__(self, directory: Path, agent_id: str) -> None:
        """Raises JournalError if the file exists but cannot be read."""
        self._path = directory / FILE_NAME
        self._agent_id = agent_id.encode("ascii")
        self._lock = threading.Lock()
        self._is_troubled = False
        self.given, self.head = self._read()

    def hand_out(self, below: int, head: bytes) -> None:
        """Records that numbers below `below` are handed out, and the head of the chain after them.
        Returns once it is on disk."""
        with self._lock:
            if below <= self.given:
                return
            try:
                self._write(below, head)
            except OSError as error:
                self._warn(error)
                return
            self.given = below
            self._is_troubled = False

    def _read(self) -> tuple[int, bytes]:
        try:
            content = self._path.read_bytes()[: _SIZE + _HEAD_SIZE]
        except FileNotFoundError:
            return 0, NO_HEAD
        except OSError as error:
            raise JournalError(f"{self._path}: {error.strerror}") from error
        body = _checked(content[:_SIZE])
        if body is None:
            log.warning("ignoring damaged numbers of ledger entries path=%s", self._path)
            return 0, NO_HEAD
        agent_id, next_number = _RECORD.unpack(body)
        if agent_id != self._agent_id:
            return 0, NO_HEAD
        head_body = _checked(content[_SIZE:])
        number_of_head, head = _HEAD.unpack(head_body) if head_body else (-1, NO_HEAD)
        return int(next_number), head if number_of_head == next_number else NO_HEAD

    def _write(self, below: int, head: bytes) -> None:
        content = _with_sum(_RECORD.pack(self._agent_id, below)) + _with_sum(
            _HEAD.pack(below, head)
        )
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            is_new = not os.fstat(fd).st_size
            os.pwrite(fd, content, 0)
            os.fdatasync(fd)
        finally:
            os.close(fd)
        if is_new:
            sync_directory(self._path.parent)

    def _warn(self, error: OSError) -> None:
        if not self._is_troubled:
            self._is_troubled = True
            log.warning(
                "cannot write the numbers of ledger entries; they may be reused if the journal"
                " loses its end path=%s error=%s",
                self._path,
                error.strerror,
            )


def _with_sum(body: bytes) -> bytes:
    return body + _SUM.pack(crc32c(body))


def _checked(content: bytes) -> bytes | None:
    """The record before a checksum; None if the checksum is wrong."""
    body = content[: -_SUM.size]
    return body if body and _with_sum(body) == content else None

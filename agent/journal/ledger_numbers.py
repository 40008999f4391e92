"""Stores the next number of ledger entries outside the journal, in the file `ledger-numbers`.

A journal that has lost its end looks whole, only older. It would reuse numbers that are already in
the ledger, and readers would take the new entries for the old ones. So the data directory has a
small file with the agent's id and its next number. It is written and synced between journalling an
entry and sending it, usually once in `ledger_interval`.

    after a kill, a clean stop or a power loss     at least the number of what was sent

It is never ahead of what the journal once had, so a journal with a lower number has lost entries. A
file that is missing, damaged or another agent's is ignored and replaced. If it cannot be written,
the agent logs that, and goes on.
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

FILE_NAME: Final = "ledger-numbers"

_RECORD: Final = Struct("<20sq")  # the agent's id, the next number
_SUM: Final = Struct("<I")
_SIZE: Final = _RECORD.size + _SUM.size
_MODE: Final = 0o600

log = logging.getLogger(__name__)


class LedgerNumbers:
    """The numbers of an agent's ledger entries. Thread-safe. Numbers below `given` were handed
    out."""

    def __init__(self, directory: Path, agent_id: str) -> None:
        """Raises JournalError if the file exists but cannot be read."""
        self._path = directory / FILE_NAME
        self._agent_id = agent_id.encode("ascii")
        self._lock = threading.Lock()
        self._is_troubled = False
        self.given = self._read()

    def hand_out(self, below: int) -> None:
        """Records that numbers below `below` are handed out. Returns once it is on disk."""
        with self._lock:
            if below <= self.given:
                return
            try:
                self._write(below)
            except OSError as error:
                self._warn(error)
                return
            self.given = below
            self._is_troubled = False

    def _read(self) -> int:
        try:
            content = self._path.read_bytes()[:_SIZE]
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise JournalError(f"{self._path}: {error.strerror}") from error
        body, checksum = content[: _RECORD.size], content[_RECORD.size :]
        if len(content) < _SIZE or _SUM.unpack(checksum) != (crc32c(body),):
            log.warning("ignoring damaged numbers of ledger entries path=%s", self._path)
            return 0
        agent_id, next_number = _RECORD.unpack(body)
        return int(next_number) if agent_id == self._agent_id else 0

    def _write(self, below: int) -> None:
        body = _RECORD.pack(self._agent_id, below)
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            is_new = not os.fstat(fd).st_size
            os.pwrite(fd, body + _SUM.pack(crc32c(body)), 0)
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

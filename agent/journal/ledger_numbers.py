"""Up to which number entries of the ledger were handed out, outside the journal: `ledger-numbers`.

A journal that has lost its end cannot say so: it is whole, and older. It would give numbers again
that are in the ledger, and whoever reads them takes the new entries for the old ones. So the data
directory has one small file with the agent's id and its next number. It is written between the
journal's entry and its sending, and synced each time: once in `ledger_interval`, as a rule.

    after a kill, a clean stop, a loss of power     no less than what was sent

It never says more than the journal has had, so a journal that stands lower has lost something. A
file that is missing, damaged or another agent's says nothing, and is written anew. One that cannot
be written stops nothing: entries go on, and that is said.
"""

import logging
import os
import threading
from pathlib import Path
from struct import Struct
from typing import Final

from crc32c import crc32c

from agent.errors import JournalError
from ground.durable_files import sync_directory

FILE_NAME: Final = "ledger-numbers"

_RECORD: Final = Struct("<20sq")  # the agent's id, the next number
_SUM: Final = Struct("<I")
_SIZE: Final = _RECORD.size + _SUM.size
_MODE: Final = 0o600

log = logging.getLogger(__name__)


class LedgerNumbers:
    """One agent's. Any thread. `given`: the numbers below it were handed out."""

    def __init__(self, directory: Path, agent_id: str) -> None:
        """Raises JournalError where there is a file that cannot be read."""
        self._path = directory / FILE_NAME
        self._agent_id = agent_id.encode("ascii")
        self._lock = threading.Lock()
        self._is_troubled = False
        self.given = self._read()

    def hand_out(self, below: int) -> None:
        """Returns when it is on disk."""
        with self._lock:
            if below <= self.given:
                return
            try:
                self._write(below)
            except OSError as error:
                self._say(error)
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
        body, told = content[: _RECORD.size], content[_RECORD.size :]
        if len(content) < _SIZE or _SUM.unpack(told) != (crc32c(body),):
            log.warning("numbers of ledger entries are damaged, not believed path=%s", self._path)
            return 0
        agent_id, given = _RECORD.unpack(body)
        return int(given) if agent_id == self._agent_id else 0

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

    def _say(self, error: OSError) -> None:
        if not self._is_troubled:
            self._is_troubled = True
            log.warning(
                "numbers of ledger entries cannot be written down: if the journal loses its end,"
                " they are given again path=%s error=%s",
                self._path,
                error.strerror,
            )

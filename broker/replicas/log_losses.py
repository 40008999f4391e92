"""Losses of this broker's logs, kept until all other brokers and the audit know of them.

A statement is written to `withdrawn.json` in the data directory before the log takes anything at
those offsets. The counting process transfers it to the ledger and confirms that; a crash in between
reports it twice, which changes nothing. `/readyz` and the metrics show it until the ledger has it
and the broker is restarted after a clean stop: by then a person has attended to this broker, and
the audit keeps the statement. Any thread.
"""

import logging
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import msgspec

from ground.files.durable_files import replace_file
from ground.known_types import known_type

FILE_NAME: Final = "withdrawn.json"
UNKNOWN: Final = -1

log = logging.getLogger(__name__)


class Withdrawal(msgspec.Struct, frozen=True, kw_only=True):
    """A range of lost offsets: at least `count` from `first` on; `count` is UNKNOWN if their number
    is unknown. The log continued at `resumes`, under this leader epoch."""

    number: int
    topic: str
    topic_id: str
    partition: int
    leader_epoch: int
    first: int
    count: int
    resumes: int
    reason: str
    found_millis: int
    told: bool = False

    @property
    def words(self) -> str:
        """The loss as one line for people."""
        offsets = (
            f"{self.first:,} to {self.first + self.count - 1:,}"
            if self.count > 0
            else f"from {self.first:,} on (their number is unknown)"
        )
        return (
            f"{self.topic}-{self.partition} has lost acknowledged messages {offsets}, leader epoch "
            f"{self.leader_epoch} begins: {self.reason}"
        )


class Withdrawals:
    def __init__(self, directory: Path, *, clean: bool, keeps_ledger: bool) -> None:
        """`clean`: the last stop was clean. Without a ledger, the audit need not be told."""
        self._path = directory / FILE_NAME
        self._lock = threading.Lock()
        stored_withdrawals = self._read()
        self._all = [
            withdrawal
            for withdrawal in stored_withdrawals
            if not (clean and (withdrawal.told or not keeps_ledger))
        ]
        if len(self._all) != len(stored_withdrawals):
            self._write(self._all)
        for withdrawal in self._all:
            log.error("%s (found before this start)", withdrawal.words)

    def add(self, withdrawal: Withdrawal) -> None:
        """Numbers and saves the withdrawal. Blocks. Raises OSError."""
        with self._lock:
            number = max((withdrawal.number for withdrawal in self._all), default=0) + 1
            numbered_withdrawal = msgspec.structs.replace(withdrawal, number=number)
            # Without a ledger there is nothing to wait for: it counts as told.
            if numbered_withdrawal.topic.startswith("_"):
                numbered_withdrawal = msgspec.structs.replace(numbered_withdrawal, told=True)
            self._write([*self._all, numbered_withdrawal])
        log.error("%s", numbered_withdrawal.words)

    def told(self, numbers: Collection[int]) -> None:
        """Notes that the withdrawals with these numbers are in the ledger, or in its journal.
        Blocks. Raises OSError."""
        with self._lock:
            self._write(
                [
                    msgspec.structs.replace(withdrawal, told=True)
                    if withdrawal.number in numbers
                    else withdrawal
                    for withdrawal in self._all
                ]
            )

    def untold(self) -> list[Withdrawal]:
        return [withdrawal for withdrawal in self._all if not withdrawal.told]

    def __iter__(self) -> Iterator[Withdrawal]:
        return iter(self._all)

    def _read(self) -> list[Withdrawal]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=known_type(list[Withdrawal]))
        except FileNotFoundError:
            return []
        except msgspec.DecodeError as error:
            log.warning("cannot read recorded losses path=%s error=%s", self._path, error)
            return []

    def _write(self, all_: list[Withdrawal]) -> None:
        replace_file(self._path, msgspec.json.encode(all_))
        self._all = all_

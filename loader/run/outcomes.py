"""The outcome of a load by table, and the interface through which its progress is shown."""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from loader.checks.comparison import FaultyFile
from loader.errors import FilesDiffer, RowsAltered
from loader.values.tables import Hour


class PartitionRange(msgspec.Struct, frozen=True):
    """A half-open range of offsets that were read."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int


class CompactedHour(msgspec.Struct, frozen=True):
    """Files of an hour that were, or would be, joined to fewer."""

    hour: Hour
    files: int
    new_files: int
    bytes: int
    new_bytes: int | None = None  # None: only planned


class TableOutcome(msgspec.Struct):
    """The outcome of one table's load, filled in during the load."""

    table: str
    destination: str = ""  # the root's name in the ledger; empty: the configured one
    run: int | None = None  # the number of its manifest; None: nothing was committed
    rolled_forward: int | None = None  # an interrupted run that was completed first
    ranges: tuple[PartitionRange, ...] = ()
    records: int = 0  # planned to be read, approximately
    rows: int = 0
    bytes: int = 0  # of the files
    files: int = 0
    late: int = 0
    duplicates: int = 0
    dead: int = 0
    complete: list[Hour] = []
    rebuilt: dict[Hour, int] = {}  # the rows of hours that were rebuilt
    waiting: dict[Hour, str] = {}  # what those of them wait for that are not complete again
    next_load: str = ""  # the command that closes these
    incomplete: list[Hour] = []
    certified: list[Hour] = []  # hours that got certificates
    uncertified: dict[Hour, str] = {}  # why complete hours got none
    merged_files: int = 0  # that were merged into fewer
    compacted: list[CompactedHour] = []
    upgraded: list[Hour] = []  # hours whose files got the table's columns
    upgraded_files: int = 0  # that had others
    checked: list[Hour] = []  # hours whose files were checked on request
    faults: list[FaultyFile] = []  # of files
    other_damage: str = ""  # in hours that a rebuild was not asked for: no error
    other_cure: str = ""
    warnings: list[str] = []
    seconds: float = 0.0
    error: Exception | None = None
    cure: str = ""  # what to do about the error

    @property
    def did_nothing(self) -> bool:
        """Whether the load neither read, closed, repaired nor checked anything, and nothing
        failed."""
        has_changed = self.run is not None or self.rolled_forward is not None
        has_found = bool(self.records or self.checked or self.compacted)
        return not (has_changed or has_found) and self.error is None


def has_failed(outcome: TableOutcome) -> bool:
    """Whether the table was not loaded, or not completely. Damaged files and altered rows do not
    count, since the rows were loaded nevertheless."""
    return outcome.error is not None and not isinstance(outcome.error, FilesDiffer | RowsAltered)


class TableWatcher(Protocol):
    """Receives the progress of a load. Each table has a thread that calls it."""

    def planned(self, table: str, tasks: int, records: int) -> None:
        """Receives the approximate number of records to read."""

    def advanced(self, table: str, tasks: int, records: int) -> None:
        """Receives the progress so far."""

    def doing(self, table: str, step: str) -> None:
        """Receives the current step, in words."""

    def warned(self, table: str, text: str) -> None:
        """Receives a warning during the load."""

    def ended(self, outcome: TableOutcome) -> None:
        """Receives the outcome, as the last call for this table."""

    def finishing(self, step: str) -> None:
        """Receives the current step of the whole load after its tables; empty at its end."""


# Errors that need a decision precede those that may be gone with the next load.
WORST_FIRST: Final = (130, 4, 6, 8, 1, 7, 5)


def worst_exit_code(outcomes: Sequence[TableOutcome]) -> int:
    """The exit code of a whole load: that of an error, or 3 if there was nothing to do."""
    exit_codes = {
        int(getattr(outcome.error, "exit_code", 1))
        for outcome in outcomes
        if outcome.error is not None
    }
    if exit_codes:
        return next((code for code in WORST_FIRST if code in exit_codes), min(exit_codes))
    return 3 if all(outcome.did_nothing for outcome in outcomes) else 0

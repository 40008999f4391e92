"""What came of a load, table by table, for whoever asked for it; and how it is told on the way."""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from loader.checks.comparison import FaultyFile
from loader.tables import Hour


class PartitionRange(msgspec.Struct, frozen=True):
    """Offsets that were read: from the first, up to but without the last."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int


class TableOutcome(msgspec.Struct):
    """One table's share of a load; grows while the load goes on."""

    table: str
    destination: str = ""  # the root as the ledger has it; empty: as it is configured
    run: int | None = None  # the number of its manifest; None: nothing was committed
    rolled_forward: int | None = None  # a run that had been cut short, and was completed first
    ranges: tuple[PartitionRange, ...] = ()
    records: int = 0  # that were to be read, about
    rows: int = 0
    bytes: int = 0  # of the files
    files: int = 0
    late: int = 0
    duplicates: int = 0
    dead: int = 0
    complete: list[Hour] = []
    incomplete: list[Hour] = []
    merged_files: int = 0  # that became fewer
    checked: list[Hour] = []  # hours whose files were to be compared
    faults: list[FaultyFile] = []  # what is wrong with files
    warnings: list[str] = []
    seconds: float = 0.0
    error: Exception | None = None

    @property
    def did_nothing(self) -> bool:
        """Nothing was read, closed, repaired or asked for, and nothing went wrong."""
        changed = self.run is not None or self.rolled_forward is not None
        return not (changed or self.records or self.checked) and self.error is None


class TableWatcher(Protocol):
    """Told how a load goes on, by several threads: one for each table that is under way."""

    def planned(self, table: str, tasks: int, records: int) -> None:
        """About so many records are to be read."""

    def advanced(self, table: str, tasks: int, records: int) -> None:
        """So much of that is done."""

    def doing(self, table: str, step: str) -> None:
        """What comes now, in words."""

    def warned(self, table: str, text: str) -> None:
        """Something to know, while the load goes on."""

    def ended(self, outcome: TableOutcome) -> None:
        """Nothing more comes of this table."""


# What somebody must decide comes before what the next load may find gone.
WORST_FIRST: Final = (130, 4, 6, 8, 1, 7, 5)


def worst_exit_code(outcomes: Sequence[TableOutcome]) -> int:
    """Of a whole load: an error's, or 3 if there was nothing to do."""
    codes = {
        int(getattr(each.error, "exit_code", 1)) for each in outcomes if each.error is not None
    }
    if codes:
        return next((code for code in WORST_FIRST if code in codes), min(codes))
    return 3 if all(each.did_nothing for each in outcomes) else 0

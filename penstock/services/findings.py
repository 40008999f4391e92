"""How far `penstock check-config` goes, and what it found."""

from collections.abc import Iterable, Sequence
from enum import Enum, auto

from ground.printable import one_line
from penstock.cli.output import Row, print_table


class Ask(Enum):
    """Whether servers are asked: `--offline`, nothing said, `--online`."""

    NOBODY = auto()
    WHO_ANSWERS = auto()
    ALL = auto()  # one who does not answer is a problem


def print_section(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """A table, if it has rows, apart from what is above."""
    if rows:
        print()
        print_table(columns, rows)


def print_findings(problems: Iterable[str], remarks: Iterable[str], *, apart: bool = True) -> None:
    """A line for each; `apart` from what is above, if there is any."""
    lines = [*(f"problem: {each}" for each in problems), *(f"note: {each}" for each in remarks)]
    if lines and apart:
        print()
    for line in lines:
        print(one_line(line))

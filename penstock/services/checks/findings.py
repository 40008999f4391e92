"""What `penstock check-config` found."""

from collections.abc import Iterable, Sequence

from ground.printable import one_line
from penstock.cli.output import Row, print_table


def print_section(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """A table, if it has rows, apart from what is above."""
    if rows:
        print()
        print_table(columns, rows)


def print_findings(problems: Iterable[str], remarks: Iterable[str]) -> None:
    """A line for each."""
    for kind, texts in (("problem", problems), ("note", remarks)):
        for text in texts:
            print(one_line(f"{kind}: {text}"))

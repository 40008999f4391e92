"""Prints the findings of `penstock check-config`."""

from collections.abc import Iterable, Sequence

from ground.printable import one_line
from penstock.cli.output import Row, print_table


def print_section(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Print a table after a blank line, if it has rows."""
    if rows:
        print()
        print_table(columns, rows)


def print_findings(problems: Iterable[str], remarks: Iterable[str]) -> None:
    """Print a line for each problem and remark."""
    for kind, texts in (("problem", problems), ("note", remarks)):
        for text in texts:
            print(one_line(f"{kind}: {text}"))

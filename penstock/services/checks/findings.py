"""Prints the tables of `penstock check-config`."""

from collections.abc import Sequence

from penstock.cli.output import Row, print_table


def print_section(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Prints a table after a blank line, if it has rows."""
    if rows:
        print()
        print_table(columns, rows)

"""Counts values that could not be converted, and names the first hundred on stderr."""

from typing import Final

import click

from ground.printable import one_line
from schemas.errors import BadMessage

_MOST_NAMED: Final = 100


class SkippedValues:
    """The skipped values of one run of a command."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, where: str, why: BadMessage) -> None:
        self.count += 1
        if self.count <= _MOST_NAMED:
            click.echo(f"penstock: {where}: {one_line(str(why))}", err=True)
        elif self.count == _MOST_NAMED + 1:
            click.echo("penstock: further skipped values are counted but not listed", err=True)

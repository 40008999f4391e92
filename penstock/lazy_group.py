"""A group of commands of which only the one that is called gets imported."""

from importlib import import_module
from typing import Any, NamedTuple

import click

from penstock.failures import Failed

_OURS = {
    *("penstock", "pyspark_penstock", "agent", "broker", "registry", "loader", "audit"),
    *("ledger", "client", "cluster", "schemas", "serving", "wire"),
}


class Lazy(NamedTuple):
    """A command: the module that defines it as `command`, what it does, what it needs."""

    module: str
    does: str
    extra: str = ""  # the extra of the distribution without which it cannot run


class LazyGroup(click.Group):
    """Commands by name."""

    def __init__(self, *args: Any, table: dict[str, Lazy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        lazy = self.table[cmd_name]
        try:
            command: click.Command = import_module(lazy.module).command
        except ModuleNotFoundError as missing:
            package = (missing.name or "").partition(".")[0]
            if not lazy.extra or package in _OURS:
                raise
            raise Failed(
                f"{ctx.command_path} {cmd_name} needs {missing.name}: "
                f"pip install 'penstock[{lazy.extra}]'"
            ) from missing
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table's own words: listing the commands imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.does) for name, lazy in self.table.items()])

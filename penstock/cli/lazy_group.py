"""A group of commands that imports only the command that is called.

Help, completion and the search for similar names use the table's texts. Completion of a command's
parameters uses a stand-in for the command, made by the context's `obj`.
"""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ground.similar_names import did_you_mean
from penstock.cli.failures import Failed, missing_extra

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_OURS = {
    *("penstock", "pyspark_penstock", "agent", "broker", "registry", "loader", "audit", "mirror"),
    *("ledger", "client", "columns", "cluster", "schemas", "wire", "ground"),
}


class Lazy(NamedTuple):
    """A command that is imported when called: its location, its summary, and the extra that it
    needs."""

    where: str  # module:name; a module alone calls it `command`
    does: str
    extra: str = ""  # the extra of the distribution without which it cannot run

    @property
    def module(self) -> str:
        return self.where.partition(":")[0]

    def command(self) -> click.Command:
        """Imports and returns the command."""
        name = self.where.partition(":")[2] or "command"
        if self.module not in sys.modules:
            with _without_collection():
                import_module(self.module)
        command: click.Command = getattr(sys.modules[self.module], name)
        return command


def without(missing: ModuleNotFoundError, command: str, extra: str) -> Failed:
    """Returns the error for a command whose extra is not installed. Raises `missing` if one of our
    own modules is missing, or if the command needs no extra."""
    package = (missing.name or "").partition(".")[0]
    if not extra or package in _OURS:
        raise missing
    return Failed(missing_extra(command, package, extra))


StandIn = Callable[[Lazy], click.Command]


@contextmanager
def _without_collection() -> Iterator[None]:
    """Exempt what the body imports from garbage collection, which would take a tenth of a program's
    start, and a tenth of a second at its end."""
    gc_was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if gc_was_enabled:
            gc.enable()


class LazyGroup(click.Group):
    """Commands by name, under the headings of the help."""

    def __init__(
        self, *args: Any, sections: Mapping[str, Mapping[str, Lazy]], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self.table = dict(chain.from_iterable(section.items() for section in sections.values()))

    def is_beside(self, lazy: Lazy) -> bool:
        """Whether a command is in the same module as this group, and so is imported with it."""
        return self.callback is not None and self.callback.__module__ == lazy.module

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        lazy = self.table[cmd_name]
        if ctx.obj is not None and not self.is_beside(lazy):
            stand_in: StandIn = ctx.obj
            return stand_in(lazy)
        try:
            return lazy.command()
        except ModuleNotFoundError as missing:
            raise without(missing, f"{ctx.command_path} {cmd_name}", lazy.extra) from missing

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds a command. The error for an unknown one names similar commands."""
        name = args[0]
        if name not in self.table and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"no such command: {name!r}{self._like(ctx, name)}")
        return super().resolve_command(ctx, args)

    def _like(self, ctx: click.Context, name: str) -> str:
        """The commands or the option that are probably meant, for the end of a message."""
        if any(f"--{name}" in parameter.opts for parameter in self.get_params(ctx)):
            return f"; did you mean --{name}?"
        return did_you_mean(name, self.table, most=2)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the sections of commands, their summaries aligned."""
        width = max(map(len, self.table))
        for heading, table in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), lazy.does) for name, lazy in table.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        # Only completion needs it.
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        items = [
            CompletionItem(name, help=lazy.does)
            for name, lazy in self.table.items()
            if name.startswith(incomplete)
        ]
        # A group's own would import every command.
        return items + super(click.Group, self).shell_complete(ctx, incomplete)

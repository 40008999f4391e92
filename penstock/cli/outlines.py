"""Outlines of all commands, with which the shell completes them without importing them.

`outlines.json` lists the parameters of each command: their names, arguments and help, as
`penstock/command_outlines.py` extracts them. Completion builds a command from that. The command
itself is imported only where a value comes from a cluster or a registry; such a parameter is marked
with `asks`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli.lazy_group import Lazy, LazyGroup

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

FILE: Final = Path(__file__).with_suffix(".json")
_TYPED: Final = "penstock.typed"  # in a command's context: what its parameters were parsed from

Outline = Mapping[str, Any]


def outlined(lazy: Lazy) -> click.Command:
    """Returns a stand-in that completes like the command, which is not imported."""
    outline = json.loads(FILE.read_bytes())[lazy.where]
    parameters = [_parameter(parameter, lazy) for parameter in outline["parameters"]]
    if "commands" in outline:
        table = {name: Lazy(*lines) for name, lines in outline["commands"].items()}
        return LazyGroup(
            params=parameters, sections={"": table}, invoke_without_command=True, callback=None
        )
    return _Outlined(None, params=parameters)


class _Outlined(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_TYPED] = list(args)
        return super().parse_args(ctx, args)


def _parameter(outline: Outline, lazy: Lazy) -> click.Parameter:
    settings: dict[str, Any] = {"type": _type(outline), "nargs": outline.get("nargs", 1)}
    if outline.get("asks"):
        settings["shell_complete"] = _OwnCompletion(lazy)
    if "options" not in outline:
        return click.Argument([outline["name"]], required=False, **settings)
    if outline.get("flag"):
        settings = {"is_flag": True}
    return click.Option(
        [outline["name"], *outline["options"]],
        multiple=outline.get("multiple", False),
        hidden=outline.get("hidden", False),
        help=outline.get("help"),
        **settings,
    )


def _type(outline: Outline) -> click.ParamType[Any]:
    if "choices" in outline:
        return click.Choice(outline["choices"], case_sensitive=not outline.get("any_case"))
    if "path" in outline:
        return click.Path(file_okay=outline["path"] == "file")
    return click.STRING


class _OwnCompletion:
    """Completion by the command itself, which is imported and parses the command line again."""

    def __init__(self, lazy: Lazy) -> None:
        self._lazy = lazy

    def __call__(
        self, context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        command = self._lazy.command()
        with command.make_context(
            context.info_name,
            list(context.meta[_TYPED]),
            parent=context.parent,
            resilient_parsing=True,
        ) as own_context:
            (own_parameter,) = (param for param in command.params if param.name == parameter.name)
            return own_parameter.shell_complete(own_context, incomplete)

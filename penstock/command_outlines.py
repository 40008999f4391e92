"""Generates `cli/outlines.json` from the commands.

Imports every command, as completion does not. `make reference` writes the file.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from penstock.cli.lazy_group import LazyGroup
from penstock.cli.outlines import Outline
from penstock.command_line import penstock


def outlines(group: LazyGroup) -> dict[str, Outline]:
    """Imports all commands below a group that have their own modules, and returns their
    outlines."""
    outlines_by_name: dict[str, Outline] = {}
    for lazy in group.table.values():
        command = lazy.command()
        if not group.is_beside(lazy):
            outlines_by_name[lazy.where] = _outline(command)
        if isinstance(command, LazyGroup):
            outlines_by_name |= outlines(command)
    return outlines_by_name


def _outline(command: click.Command) -> Outline:
    outline: dict[str, Any] = {"parameters": [dict(_properties(param)) for param in command.params]}
    if isinstance(command, LazyGroup):
        outline["commands"] = command.table
    return outline


def _properties(parameter: click.Parameter) -> Iterator[tuple[str, object]]:
    yield "name", parameter.name
    if isinstance(parameter, click.Option):
        yield "options", _declared(parameter)
        yield "help", parameter.help
        for name in ("multiple", "hidden"):
            if getattr(parameter, name):
                yield name, True
        if parameter.is_flag:
            yield "flag", True
            return
    if parameter.nargs != 1:
        yield "nargs", parameter.nargs
    yield from _values(parameter)


def _declared(option: click.Option) -> Sequence[str]:
    if not option.secondary_opts:
        return option.opts
    return [f"{on}/{off}" for on, off in zip(option.opts, option.secondary_opts, strict=True)]


def _values(parameter: click.Parameter) -> Iterator[tuple[str, object]]:
    kind = parameter.type
    if asks(parameter):
        yield "asks", True
    elif isinstance(kind, click.Choice):
        yield "choices", [kind.normalize_choice(choice, None) for choice in kind.choices]
        if not kind.case_sensitive:
            yield "any_case", True
    elif isinstance(kind, click.Path | click.File):
        folder = isinstance(kind, click.Path) and kind.dir_okay and not kind.file_okay
        yield "path", "dir" if folder else "file"


def asks(parameter: click.Parameter) -> bool:
    """Whether the parameter has its own completion. Click has no public way to find out."""
    return parameter._custom_shell_complete is not None


def text() -> str:
    """Returns the contents of outlines.json."""
    assert isinstance(penstock, LazyGroup)
    commands = (f'"{place}": {_lines(outline)}' for place, outline in outlines(penstock).items())
    return f"{{\n{_joined(commands)}\n}}\n"


def _lines(outline: Outline) -> str:
    """One line for each parameter, for readable diffs."""
    parts = [f'"parameters": [\n{_joined(map(json.dumps, outline["parameters"]))}]']
    if "commands" in outline:
        parts.append(f'"commands": {json.dumps(outline["commands"])}')
    return f"{{{_joined(parts)}}}"


def _joined(lines: Iterable[str]) -> str:
    return ",\n".join(lines)

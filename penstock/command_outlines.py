"""The text of `cli/outlines.json`, from the commands themselves.

Imports every command, which completion does not. `make reference` writes the file.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from penstock.cli.lazy_group import LazyGroup
from penstock.cli.outlines import Outline
from penstock.command_line import penstock


def outlines(group: LazyGroup) -> dict[str, Outline]:
    """Of all commands below it that are in modules of their own; this imports every one of them."""
    found: dict[str, Outline] = {}
    for lazy in group.table.values():
        command = lazy.command()
        if not group.is_beside(lazy):
            found[lazy.where] = _outline(command)
        if isinstance(command, LazyGroup):
            found |= outlines(command)
    return found


def _outline(command: click.Command) -> Outline:
    outline: dict[str, Any] = {"parameters": [dict(_told(param)) for param in command.params]}
    if isinstance(command, LazyGroup):
        outline["commands"] = command.table
    return outline


def _told(parameter: click.Parameter) -> Iterator[tuple[str, object]]:
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
    """Whether it completes in a way of its own. There is no public way to know."""
    return parameter._custom_shell_complete is not None


def text() -> str:
    """What outlines.json should say."""
    assert isinstance(penstock, LazyGroup)
    commands = (f'"{where}": {_lines(outline)}' for where, outline in outlines(penstock).items())
    return f"{{\n{_joined(commands)}\n}}\n"


def _lines(outline: Outline) -> str:
    """A line for each parameter, so that it is seen which of them a change is about."""
    parts = [f'"parameters": [\n{_joined(map(json.dumps, outline["parameters"]))}]']
    if "commands" in outline:
        parts.append(f'"commands": {json.dumps(outline["commands"])}')
    return f"{{{_joined(parts)}}}"


def _joined(lines: Iterable[str]) -> str:
    return ",\n".join(lines)

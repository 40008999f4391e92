"""`penstock keys`."""

import textwrap
from collections.abc import Sequence
from shutil import get_terminal_size
from sys import stdout

import click

from penstock.cli.failures import Failed
from penstock.cli.output import has_colours, json_option, print_json, print_table
from penstock.config.reference import KINDS, Key, found, is_nothing, sections, spoken, written

_WIDEST = 100


@click.command()
@click.argument("program", type=click.Choice(list(KINDS)), metavar="PROGRAM")
@click.argument("words", nargs=-1, metavar="[WORD]…")
@json_option
def command(program: str, words: tuple[str, ...], *, as_json: bool) -> None:
    """Explain the keys of a program's configuration: all, or those whose text has the words.

    PROGRAM is agent, broker, registry, loader, audit, mirror or zookeeper; client is a profile of
    this command, for the addresses and credentials of other commands.

    Keys are written as --set takes them; in lists as inputs[].topic, and where names are yours as
    clusters.NAME.brokers. Wherever a text is wanted, KEY_file may name a file that holds it.

    \b
    Example:
        penstock keys agent
        penstock keys agent multiline
        penstock keys broker zookeeper session
        penstock keys loader --json | jq -r '.[].key'
    """
    keys = found(sections(KINDS[program]), words)
    if as_json:
        print_json([_document(key) for key in keys])
    elif not keys:
        said = " ".join(words)
        raise Failed(
            f"no key of {program} has the words {said}; `penstock keys {program}` shows all keys"
        )
    elif stdout.isatty():
        _print_paragraphs(keys)
    else:
        print_table(("key", "type", "default", "meaning"), [_row(key) for key in keys])


def _document(key: Key) -> dict[str, object]:
    return {
        "key": key.name,
        "type": key.type,
        "allowed": list(key.allowed),
        "required": key.required,
        "default": key.default,
        "meaning": key.plain_meaning,
    }


def _row(key: Key) -> dict[str, object]:
    return {
        "key": key.name,
        "type": _type(key),
        "default": _default(key),
        "meaning": key.plain_meaning,
    }


def _print_paragraphs(keys: Sequence[Key]) -> None:
    """A table would leave the meanings, which matter most, the narrowest column."""
    width = min(get_terminal_size().columns, _WIDEST)
    for key in keys:
        default = _default(key)
        said = "" if default is None else f", {'' if key.required else 'default '}{default}"
        name = click.style(key.name, bold=True) if has_colours() else key.name
        click.echo(f"{name}  {_type(key)}{said}")
        click.echo(textwrap.indent(textwrap.fill(key.plain_meaning, width - 4), "    "))


def _type(key: Key) -> str:
    return f"one of {', '.join(key.allowed)}" if key.allowed else key.type


def _default(key: Key) -> str | None:
    if key.required:
        return "required"
    if is_nothing(key.default):
        return None
    short = spoken(key.default, key.type)
    return written(key.default) + (f" ({short})" if short else "")

"""`penstock keys`: explains configuration keys."""

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
    """Explain the keys of a program's configuration: all, or those that match the words.

    PROGRAM is agent, broker, registry, loader, audit, mirror or zookeeper; client stands for the
    profile of addresses and credentials that commands read.

    Keys are written as --set takes them; keys in lists as inputs[].topic, and below names that you
    choose as clusters.NAME.brokers. For each text key, KEY_file may name a file that holds the
    text.

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
        words_text = " ".join(words)
        raise Failed(
            f"no key of {program} matches {words_text}; `penstock keys {program}` shows all keys"
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
    """Print paragraphs, as a table would leave little room for the meanings."""
    width = min(get_terminal_size().columns, _WIDEST)
    for key in keys:
        default = _default(key)
        default_text = "" if default is None else f", {'' if key.required else 'default '}{default}"
        name = click.style(key.name, bold=True) if has_colours() else key.name
        click.echo(f"{name}  {_type(key)}{default_text}")
        click.echo(textwrap.indent(textwrap.fill(key.plain_meaning, width - 4), "    "))


def _type(key: Key) -> str:
    return f"one of {', '.join(key.allowed)}" if key.allowed else key.type


def _default(key: Key) -> str | None:
    if key.required:
        return "required"
    if is_nothing(key.default):
        return None
    short_form = spoken(key.default, key.type)
    return written(key.default) + (f" ({short_form})" if short_form else "")

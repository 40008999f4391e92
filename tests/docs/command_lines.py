"""Penstock's commands within shell text, and whether the command line would understand them.

Only how they are written is judged: names of commands and options, and that options which want a
value have one. Whether a file is there, or a topic, shows when a block is run.
"""

import shlex
from collections.abc import Iterator
from itertools import dropwhile

import click

from penstock.command_line import penstock

_SEPARATORS = frozenset({"|", "||", "&", "&&", ";", ";;", "(", ")", "\n"})
_REDIRECTIONS = frozenset({">", ">>", "<", "<<", ">&", "&>", "<&"})
_WORDS_BEFORE = frozenset({"if", "then", "do", "while", "until", "else", "!", "time", "nohup"})


def penstock_commands(shell: str) -> Iterator[list[str]]:
    """The arguments of each `penstock` in it, without its own name."""
    for command in _commands(shell):
        words = list(dropwhile(_comes_before, command))
        if words and words[0].rpartition("/")[2] == "penstock":
            yield words[1:]


def _comes_before(word: str) -> bool:
    return word in _WORDS_BEFORE or _is_assignment(word)


def _commands(shell: str) -> Iterator[list[str]]:
    words: list[str] = []
    skipped = False  # the word behind a redirection
    for word in _words(shell):
        if word in _SEPARATORS or set(word) <= {"\n"}:
            yield words
            words = []
        elif word in _REDIRECTIONS:
            skipped = True
        elif skipped:
            skipped = False
        else:
            words.append(word)
    yield words


def _words(shell: str) -> Iterator[str]:
    text = _without_documents(shell).replace("\\\n", " ")
    for line in text.split("\n"):
        yield from _words_of(line)
        yield "\n"


def _words_of(line: str) -> Iterator[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        yield from lexer
    except ValueError:
        return  # a text over several lines: what follows is no command of ours


def _without_documents(shell: str) -> str:
    """Shell text without what stands between <<EOF and EOF."""
    kept: list[str] = []
    end: str | None = None
    for line in shell.split("\n"):
        if end is not None:
            end = None if line.strip() == end else end
            continue
        kept.append(line)
        if "<<" in line:
            end = line.rpartition("<<")[2].split()[0].strip("'\"-")
    return "\n".join(kept)


def _is_assignment(word: str) -> bool:
    return word.partition("=")[0].isidentifier() and "=" in word


def misunderstood(arguments: list[str]) -> str | None:
    """Why the command line would refuse these arguments; None if it would not."""
    command: click.Command = penstock
    context = click.Context(penstock, info_name="penstock")
    left = list(arguments)
    try:
        while True:
            _, left, _ = command.make_parser(context).parse_args(list(left))
            if not isinstance(command, click.Group) or not left:
                break
            name, found, left = command.resolve_command(context, left)
            assert found is not None
            context = click.Context(found, parent=context, info_name=name)
            command = found
    except click.UsageError as error:
        return error.format_message()
    if left and not isinstance(command, click.Group):
        return f"one argument too many: {left[0]}"
    return None

"""Errors of commands: lines on stderr, and an exit code."""

from typing import Final

import click

# What click says, and what it means.
_WORDS: Final = {
    "is not a valid integer range": "is not a whole number",
    "is not a valid integer": "is not a whole number",
    "is not a valid float range": "is not a number",
    "is not a valid float": "is not a number",
}


class CommandError(click.ClickException):
    """An error of a command, with one line for each reason."""

    def __init__(self, *lines: str) -> None:
        super().__init__(lines[0])
        self.lines = lines


class Failed(CommandError):
    """The command has failed."""

    exit_code = 1


class WrongConfiguration(CommandError):
    """The configuration is invalid, so the command did nothing."""

    exit_code = 2


def usage_words(error: click.UsageError) -> str:
    """Returns the message of a usage error; click's own messages are adapted to our style."""
    message = error.format_message()
    for click_words, our_words in _WORDS.items():
        message = message.replace(click_words, our_words)
    if message[:1].isupper() and message[1:2].islower():
        message = message[0].lower() + message[1:]
    return message.removesuffix(".")


def missing_extra(program: str, package: str, extra: str) -> str:
    """Returns the message for a missing package that one of Penstock's extras installs."""
    return (
        f"{program} needs {package}: install Penstock with `{extra}`, from a release "
        f"(sh penstock-install-VERSION.sh FOLDER {extra}) or a clone (pip install '.[{extra}]')"
    )

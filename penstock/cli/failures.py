"""Errors as a user meets them: a line for each on stderr, and an exit code."""

from typing import Final

import click

# What click says, and what it means.
_WORDS: Final = {
    "is not a valid integer range": "is not a whole number",
    "is not a valid integer": "is not a whole number",
    "is not a valid float range": "is not a number",
    "is not a valid float": "is not a number",
}


class Failed(click.ClickException):
    """The command did not do its work."""

    exit_code = 1


class WrongConfiguration(click.ClickException):
    """The configuration is invalid, and nothing was tried. Each of its mistakes has a line."""

    exit_code = 2

    def __init__(self, *mistakes: str) -> None:
        super().__init__(mistakes[0])
        self.mistakes = mistakes


def usage_words(error: click.UsageError) -> str:
    """The message, in the style of all other errors where it is click's."""
    said = error.format_message()
    for theirs, ours in _WORDS.items():
        said = said.replace(theirs, ours)
    if said[:1].isupper() and said[1:2].islower():
        said = said[0].lower() + said[1:]
    return said.removesuffix(".")


def missing_extra(program: str, package: str, extra: str) -> str:
    """The message where a package of one of Penstock's extras is not installed."""
    return (
        f"{program} needs {package}: install Penstock with `{extra}`, from a release "
        f"(sh penstock-install-VERSION.sh FOLDER {extra}) or a clone (pip install '.[{extra}]')"
    )

"""Errors as a user meets them: one line on stderr, and an exit code."""

import click


class Failed(click.ClickException):
    """What was asked for was not done."""

    exit_code = 1


class WrongConfiguration(click.ClickException):
    """Nothing was tried: the configuration is not valid."""

    exit_code = 2


def usage_words(error: click.UsageError) -> str:
    """What is wrong, in the style of all other errors, also where click has the words."""
    said = error.format_message()
    if said[:1].isupper() and said[1:2].islower():
        said = said[0].lower() + said[1:]
    return said.removesuffix(".")

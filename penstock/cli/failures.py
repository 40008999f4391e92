"""Errors as a user meets them: one line on stderr, and an exit code."""

import click


class Failed(click.ClickException):
    """The command did not do its work."""

    exit_code = 1


class WrongConfiguration(click.ClickException):
    """The configuration is invalid, and nothing was tried."""

    exit_code = 2


def usage_words(error: click.UsageError) -> str:
    """The message, in the style of all other errors where it is click's."""
    said = error.format_message()
    if said[:1].isupper() and said[1:2].islower():
        said = said[0].lower() + said[1:]
    return said.removesuffix(".")

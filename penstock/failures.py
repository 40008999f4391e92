"""Errors as a user meets them: one line on stderr, and an exit code."""

import click


class Failed(click.ClickException):
    """What was asked for was not done."""

    exit_code = 1


class WrongConfiguration(click.ClickException):
    """Nothing was tried: the configuration is not valid."""

    exit_code = 2

"""Versions as they are given on the command line: a number, or `latest`."""

from typing import Final, Literal, TypeAlias

import click

Which: TypeAlias = int | Literal["latest"]

_HIGHEST: Final = 2**31 - 1
_DIGITS: Final = 10


class Version(click.ParamType[Which]):
    """A version of a subject."""

    name = "version"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Which:
        if value == "latest":
            return "latest"
        text = str(value)
        if text.isascii() and text.isdigit() and len(text) <= _DIGITS and 0 < int(text) <= _HIGHEST:
            return int(text)
        return self.fail(f"{text!r} is neither a version such as 3 nor 'latest'", param, ctx)


VERSION: Final = Version()

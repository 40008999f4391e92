"""What the commands about schemas take as arguments: a subject, a version, an id."""

from typing import Final, Literal, TypeAlias

import click

__all__ = ["HIGHEST", "SCHEMA_ID", "SUBJECT", "VERSION", "Which"]

Which: TypeAlias = int | Literal["latest"]

HIGHEST: Final = 2**31 - 1  # of an int in Java
_DIGITS: Final = 10

SCHEMA_ID: Final = click.IntRange(0, HIGHEST)


class Subject(click.ParamType[str]):
    """Any text that can be sent; which of them are legal, the registry says."""

    name = "subject"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:
            self.fail("a subject's name cannot be empty", param, ctx)
        try:
            value.encode()
        except UnicodeEncodeError:
            self.fail(f"{value!r} is not UTF-8", param, ctx)
        return value


class Version(click.ParamType[Which]):
    """A version of a subject."""

    name = "version"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Which:
        if value == "latest":
            return "latest"
        text = str(value)
        if text.isascii() and text.isdigit() and len(text) <= _DIGITS and 0 < int(text) <= HIGHEST:
            return int(text)
        return self.fail(f"{text!r} is neither a version such as 3 nor 'latest'", param, ctx)


SUBJECT: Final = Subject()
VERSION: Final = Version()

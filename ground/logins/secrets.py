"""Secrets from files or environment variables, which never appear in their text form.

They are reread at every use, so a replaced password is used at the next login. A final line break
in a file is ignored.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

_MOST_BYTES: Final = 64 * 1024


class NoSecret(Exception):
    """The secret is missing or invalid. The message says where it was expected, and never quotes
    it."""


class Secret(msgspec.Struct, frozen=True):
    """The source of a secret: either a file or an environment variable."""

    file: str = ""
    variable: str = ""

    def read(self) -> str:
        """Returns the secret. Raises NoSecret."""
        text = self._of_file() if self.file else self._of_variable()
        if not text:
            raise NoSecret(f"{self} is empty")
        return text

    def __str__(self) -> str:
        return self.file or f"the environment variable {self.variable}"

    def _of_variable(self) -> str:
        try:
            return os.environ[self.variable]
        except KeyError:
            raise NoSecret(f"{self} is not set") from None

    def _of_file(self) -> str:
        try:
            with Path(self.file).open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
        except OSError as error:
            raise NoSecret(f"{self} cannot be read: {(error.strerror or '').lower()}") from None
        if len(content) > _MOST_BYTES:
            raise NoSecret(f"{self} has more than {_MOST_BYTES} bytes")
        try:
            return content.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise NoSecret(f"{self} is not UTF-8") from None

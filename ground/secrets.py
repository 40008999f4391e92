"""A secret, from a file or from an environment variable; as text it never shows itself.

It is read anew whenever it is needed, so that a password which is exchanged on disk is the one that
the next login uses. A file's last line break belongs to the editor, not to the secret.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

_MOST_BYTES: Final = 64 * 1024


class NoSecret(Exception):
    """It is not there, or cannot be one; says where it was looked for, and nothing of it."""


class Secret(msgspec.Struct, frozen=True):
    """Where it is: one of the two is given."""

    file: str = ""
    variable: str = ""

    def read(self) -> str:
        """Raises NoSecret."""
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

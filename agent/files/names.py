"""Names of files: they are bytes that need not be UTF-8, and are `str` with surrogates inside."""

from typing import Final

DELETED: Final = " (deleted)"
"""What the kernel adds to the name by which a file was opened, once that is removed."""


def folder_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def below(folder: str, name: str) -> str:
    return f"{folder}{name}" if folder.endswith("/") else f"{folder}/{name}"


def printable(path: str) -> str:
    """As people may read it: what is not UTF-8, or nothing to be printed, is escaped."""
    if path.isprintable():
        return path
    text = path.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )

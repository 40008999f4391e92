"""Names of files: they are bytes that need not be UTF-8, and are `str` with surrogates inside."""

from typing import Final

DELETED: Final = " (deleted)"
"""What the kernel adds to the name by which a file was opened, once that is removed."""


def folder_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def below(folder: str, name: str) -> str:
    return f"{folder}{name}" if folder.endswith("/") else f"{folder}/{name}"

"""File names: `str`, with surrogates for bytes that are not valid UTF-8."""

from typing import Final

DELETED: Final = " (deleted)"
"""The suffix that the kernel adds to an open file's path after its removal."""


def folder_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def below(folder: str, name: str) -> str:
    return f"{folder}{name}" if folder.endswith("/") else f"{folder}/{name}"

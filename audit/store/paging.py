"""Pages of lists, orders, and what is searched for. Pure."""

from collections.abc import Collection, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def cut(items: Sequence[Item], page: int, size: int) -> Sequence[Item]:
    return items[offset(page, size) : offset(page, size) + size]


def offset(page: int, size: int) -> int:
    return max(page - 1, 0) * size


def parted(sort: str, known: Collection[str]) -> tuple[str, bool]:
    """By what is sorted, and whether the other way round. ValueError for what nobody knows."""
    name = sort.removeprefix("-")
    if name not in known:
        raise ValueError(f"`sort`: {name!r} is none of {', '.join(known)}")
    return name, sort.startswith("-")


def pattern(search: str) -> str:
    """For LIKE with backslash as its escape: the text anywhere, whatever is in it."""
    escaped = "".join(f"\\{each}" if each in "\\%_" else each for each in search)
    return f"%{escaped}%"

"""The same done for many things: several at a time, where that pays for the threads."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

_FEW: Final = 16  # small things: to start threads takes as long
_SMALL: Final = 1024 * 1024  # bytes, on average

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")


def in_parallel(
    work: Callable[[_Item], _Made], items: Sequence[_Item], *, threads: int, size: int = 0
) -> list[_Made]:
    """What came of each, in their order. Raises what the first raised that failed. `size`: bytes
    that are read, of all."""
    if len(items) <= _FEW and size <= len(items) * _SMALL:
        return [work(each) for each in items]
    with ThreadPoolExecutor(threads, "beside") as pool:
        return list(pool.map(work, items))

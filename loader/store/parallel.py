"""Processes many items concurrently, if there are enough to justify threads."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

_FEW: Final = 16  # small items, which take as long as starting threads
_SMALL: Final = 1024 * 1024  # bytes, on average

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_parallel(
    work: Callable[[_Item], _Result], items: Sequence[_Item], *, threads: int, size: int = 0
) -> list[_Result]:
    """Returns the results in the order of the items. Raises the first error. `size` is the total
    number of bytes to read."""
    if len(items) <= _FEW and size <= len(items) * _SMALL:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads, "beside") as pool:
        return list(pool.map(work, items))

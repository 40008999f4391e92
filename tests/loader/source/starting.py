"""Streams on a busy machine."""

from collections.abc import Callable
from typing import Final, TypeVar

from pyspark.errors import StreamingQueryException

_STARTS: Final = 5

T = TypeVar("T")


def until_it_starts(run: Callable[[], T]) -> T:
    """Spark gives a stream's Python process ten seconds to start, which nothing can change: where a
    busy machine takes longer, nothing was read yet, and it is run once more."""
    for _ in range(_STARTS - 1):
        try:
            return run()
        except StreamingQueryException as failed:
            if "Python worker failed to connect back" not in str(failed):
                raise
    return run()

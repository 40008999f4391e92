"""Counts the rows of files that may no longer be intact."""

from collections.abc import Callable, Sequence

from loader.checks.comparison import UNKNOWN
from loader.errors import LoaderError


class RowCounter:
    """Counts rows. `count` raises LoaderError if one of the files is unreadable."""

    def __init__(self, count: Callable[[Sequence[str]], dict[str, int]]) -> None:
        self._count = count

    def __call__(self, paths: Sequence[str]) -> dict[str, int]:
        """Returns the rows by path. Bisects a failing set of files to find the unreadable ones."""
        if not paths:
            return {}
        try:
            return self._count(paths)
        except LoaderError:
            if len(paths) == 1:
                return {paths[0]: UNKNOWN}
        middle = len(paths) // 2
        return self(paths[:middle]) | self(paths[middle:])

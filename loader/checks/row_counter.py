"""Counts the rows of files that are no longer known to be intact, by Spark."""

from collections.abc import Callable, Sequence

from loader.checks.comparison import UNKNOWN
from loader.errors import LoaderError, StoreError
from loader.store.store import Store


class RowCounter:
    """Counts rows below one root. `count` raises LoaderError if one of the files is unreadable."""

    def __init__(self, store: Store, count: Callable[[Sequence[str]], dict[str, int]]) -> None:
        self._store = store
        self._count = count

    def __call__(self, paths: Sequence[str]) -> dict[str, int]:
        """Returns the rows by path. Bisects a failing set of files to find the unreadable ones."""
        if not paths:
            return {}
        try:
            uris = {path: self._store.uri(path) for path in paths}
            rows = self._count(list(uris.values()))
            return {path: rows[uri] for path, uri in uris.items()}
        except (LoaderError, StoreError):
            if len(paths) == 1:
                return {paths[0]: UNKNOWN}
        half = len(paths) // 2
        return self(paths[:half]) | self(paths[half:])

"""The rows of files that may be anything: what cannot be read is counted as UNKNOWN."""

from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from loader.checking_files.comparing import UNKNOWN
from loader.config import FileFormat
from loader.errors import LoaderError, StoreError
from loader.job import working
from loader.rewriting.counting import count_rows
from loader.store.store import Store


class RowCounter:
    """Of one root, as files of this format."""

    def __init__(
        self, start_spark: Callable[[], SparkSession], store: Store, format_: FileFormat
    ) -> None:
        self._start_spark = start_spark
        self._store = store
        self._format = format_

    def __call__(self, paths: Sequence[str]) -> dict[str, int]:
        """By path. One that spoils a job is found by halves."""
        if not paths:
            return {}
        try:
            uris = {path: self._store.uri(path) for path in paths}
            with working("counting rows"):
                rows = count_rows(self._start_spark(), list(uris.values()), self._format)
            return {path: rows[uri] for path, uri in uris.items()}
        except (LoaderError, StoreError):
            if len(paths) == 1:
                return {paths[0]: UNKNOWN}
        half = len(paths) // 2
        return self(paths[:half]) | self(paths[half:])

"""A store that counts what it is called, in place of the one that Spark gives a load."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loader.store.local import LocalStore

ROOT = "hdfs://counted/root"


class CountedStore:
    """Counts the calls by method, without looks at `visible-N`: a slow load makes more. Claims to
    store checksums, as HDFS does."""

    stores_checksums = True

    def __init__(self, root: Path) -> None:
        self._store = LocalStore(f"file://{root}")
        self.root = ROOT
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            is_look = name == "size" and "/visible-" in arguments[0]
            self.calls[name] += name != "uri" and arguments != ([],) and not is_look
            return getattr(self._store, name)(*arguments)

        return counted


class OnlyStores:
    """What a load asks Spark for, if it needs nothing else of it."""

    def __init__(self, store: CountedStore) -> None:
        self._store = store

    def store(self, root: str) -> CountedStore:
        return self._store

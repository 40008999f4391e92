"""The store that belongs to a root."""

from collections.abc import Callable

from loader.store.local import LocalStore
from loader.store.store import Store


def open_store(root: str, by_spark: Callable[[str], Store]) -> Store:
    """Spark is asked for one unless the root is a `file:`."""
    if root.startswith("file:"):
        return LocalStore(root)
    return by_spark(root)

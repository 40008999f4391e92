"""Opens the store of a root."""

from collections.abc import Callable

from loader.store.local import LocalStore
from loader.store.store import Store


def open_store(root: str, by_spark: Callable[[str], Store]) -> Store:
    """Opens the store of a root. Uses Spark unless the root is a `file:` URI."""
    if root.startswith("file:"):
        return LocalStore(root)
    return by_spark(root)

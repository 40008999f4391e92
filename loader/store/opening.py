"""The store that belongs to a root."""

from collections.abc import Callable
from typing import Any

from loader.store.local import LocalStore
from loader.store.store import Store


def open_store(root: str, start_spark: Callable[[], Any]) -> Store:
    """The session's credentials and settings hold; a `file:` root needs none."""
    if root.startswith("file:"):
        return LocalStore(root)
    # Hadoop's classes are asked for only where there is a JVM.
    from loader.store.hadoop import HadoopStore  # noqa: PLC0415

    context = start_spark().sparkContext
    return HadoopStore(root, context._gateway, context._jsc.hadoopConfiguration())

"""kio's message schemas, each a module that is imported on first use.

Until Python 3.12, an import that starts while another in the same thread is just starting, as in a
finalizer run by the garbage collector, makes that one fail with a KeyError, and leaves its module's
lock held by this thread. So the import is retried in the same thread, which holds the lock.
https://github.com/python/cpython/issues/91351
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from kio import index
from kio.static.constants import EntityType
from kio.static.protocol import Entity, RequestPayload, ResponsePayload

Arguments = ParamSpec("Arguments")
Schema = TypeVar("Schema")

_TIMES = 3  # so many failures in a row are practically impossible


def request_schema(key: int, version: int) -> type[RequestPayload]:
    return imported(index.load_request_schema, key, version)


def response_schema(key: int, version: int) -> type[ResponsePayload]:
    return imported(index.load_response_schema, key, version)


def data_schema(name: str, version: int) -> type[Entity]:
    """Returns the schema of data that messages carry as bytes."""
    return imported(index.load_entity_schema, name, version, EntityType.data)


def imported(
    load: Callable[Arguments, Schema], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Schema:
    for _ in range(_TIMES - 1):
        try:
            return load(*args, **kwargs)
        except KeyError:
            continue
    return load(*args, **kwargs)


__all__ = ["data_schema", "imported", "request_schema", "response_schema"]

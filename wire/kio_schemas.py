"""What kio knows of a message, in a module of its own, imported when it is first asked for.

Until Python 3.12, an import that begins while another one in the same thread is just beginning, as
in a finalizer that the garbage collector runs then, makes that one fail with a KeyError, and leaves
its module's lock taken by this thread. So it is tried again here, in the same thread: that has the
lock already. https://github.com/python/cpython/issues/91351
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from kio import index
from kio.static.constants import EntityType
from kio.static.protocol import Entity, RequestPayload, ResponsePayload

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")

_TIMES = 3  # in a row it is as good as impossible


def request_schema(key: int, version: int) -> type[RequestPayload]:
    return imported(index.load_request_schema, key, version)


def response_schema(key: int, version: int) -> type[ResponsePayload]:
    return imported(index.load_response_schema, key, version)


def data_schema(name: str, version: int) -> type[Entity]:
    """Of what is in a message as bytes."""
    return imported(index.load_entity_schema, name, version, EntityType.data)


def imported(
    load: Callable[Arguments, Found], *args: Arguments.args, **named: Arguments.kwargs
) -> Found:
    for _ in range(_TIMES - 1):
        try:
            return load(*args, **named)
        except KeyError:
            continue
    return load(*args, **named)


__all__ = ["data_schema", "imported", "request_schema", "response_schema"]

"""The table of all APIs that are served, by key."""

import pkgutil
from importlib import import_module
from typing import Any

from kio.index import load_response_schema
from kio.schema.index import api_key_map, schema_name_map

import wire.messages
from wire.codec import Api, encode_error
from wire.errors import ErrorCode
from wire.primitives import Outgoing

APIS: dict[int, Api[Any, Any]] = {
    api.key: api
    for api in (
        import_module(f"wire.messages.{module.name}").API
        for module in pkgutil.iter_modules(wire.messages.__path__)
    )
    if api.served
}


def refusal(key: int, version: int) -> tuple[Outgoing, bool] | None:
    """The answer to a request that is not served, and whether its header has tags.

    An empty response with `UNSUPPORTED_VERSION`, in the form that the client will read; None where
    that version has no place for an error, or is not known at all.
    """
    if version not in schema_name_map.get(api_key_map.get(key, ""), ()):
        return None
    schema = load_response_schema(key, version)
    body = encode_error(schema, ErrorCode.unsupported_version)
    return None if body is None else (body, schema.__header_schema__.__version__ == 1)

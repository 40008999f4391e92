"""Messages as the events that they are: what `penstock consume --events` prints. Blocks.

An event is an object with its fields, as its own schema has them, which the registry is asked for
once. Values are as Avro carries them: a time is a number. Bytes are text where they are UTF-8, and
base64 where they are not, under "base64"; `nan` and `inf`, which are no numbers in JSON, are text.
"""

import base64
import math
from collections.abc import Mapping
from typing import Any

from penstock.connections.registry import schemas_by_id
from schemas.envelope import Decoder
from schemas.errors import BadMessage
from schemas.registry_client import RegistryClient


class EventLines:
    """Events of any topics."""

    def __init__(self, registry: RegistryClient) -> None:
        self._decoder = Decoder(schemas_by_id(registry))

    def event(self, value: bytes | None) -> Any:
        """As JSON can write it. Raises BadMessage for what is no event, and RegistryError."""
        if value is None:
            raise BadMessage("it has no value")
        return _plain(self._decoder.decode(value))


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {name: _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case bytes():
            return _text_of(value)
        case float() if not math.isfinite(value):
            return str(value)  # which JSON has no number for
        case _:
            return value


def _text_of(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}

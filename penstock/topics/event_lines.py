"""Decodes messages into events, for `penstock consume --events`. Blocks.

An event is an object with the fields of its schema, which is fetched from the registry once.
"""

from typing import Any

from schemas.bodies.plain_values import plain
from schemas.envelope import Decoder
from schemas.errors import BadMessage
from schemas.registry_client import RegistryClient


class EventLines:
    """Decodes the events of any topic."""

    def __init__(self, registry: RegistryClient) -> None:
        self._decoder = Decoder(registry.schema_of_message)

    def event(self, value: bytes | None) -> Any:
        """Returns the event in a message as JSON values. Raises BadMessage if it is not an event,
        or RegistryError."""
        if value is None:
            raise BadMessage("it has no value")
        return plain(self._decoder.decode(value))

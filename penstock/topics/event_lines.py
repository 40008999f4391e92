"""Messages as the events that they are: what `penstock consume --events` prints. Blocks.

An event is an object with its fields, as its own schema has them, which the registry is asked for
once.
"""

from typing import Any

from schemas.envelope import Decoder
from schemas.errors import BadMessage
from schemas.plain_values import plain
from schemas.registry_client import RegistryClient


class EventLines:
    """Events of any topics."""

    def __init__(self, registry: RegistryClient) -> None:
        self._decoder = Decoder(registry.schema_of_message)

    def event(self, value: bytes | None) -> Any:
        """As JSON can write it. Raises BadMessage for what is no event, and RegistryError."""
        if value is None:
            raise BadMessage("it has no value")
        return plain(self._decoder.decode(value))

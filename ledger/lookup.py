"""Which schema an entry of the ledger was written with, as a registry knows it."""

from collections.abc import Callable

from schemas.errors import InvalidSchema, RegistryRefused
from schemas.parsing import AvroSchema
from schemas.registry_client import SCHEMA_NOT_FOUND, RegistryClient

Lookup = Callable[[int], AvroSchema | None]


def lookup_at(registry: RegistryClient) -> Lookup:
    """The schema of an id; none if it is not there, or not Avro."""

    def lookup(schema_id: int) -> AvroSchema | None:
        try:
            return registry.schema(schema_id)
        except InvalidSchema:
            return None
        except RegistryRefused as error:
            if error.code == SCHEMA_NOT_FOUND:
                return None
            raise

    return lookup

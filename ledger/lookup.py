"""Looks up the schemas of ledger entries in a registry."""

from collections.abc import Callable

from schemas.errors import InvalidSchema, RegistryRefused
from schemas.parsing import AvroSchema
from schemas.registry_client import SCHEMA_NOT_FOUND, RegistryClient

Lookup = Callable[[int], AvroSchema | None]


def lookup_at(registry: RegistryClient) -> Lookup:
    """Returns a function that looks up a schema by id. The function returns None if the id is
    unknown or its schema is not Avro."""

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

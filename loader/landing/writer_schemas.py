"""The schemas of records: from the driver if it knew them, otherwise from the registry."""

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

from schemas.parsing import AvroSchema, parse
from schemas.registry_client import RegistryClient
from schemas.remote.address import RegistryAddress


class KnownSchemas(Protocol):
    @property
    def registry(self) -> RegistryAddress: ...

    @property
    def writer_schemas(self) -> Mapping[int, str]: ...


class WriterSchemas:
    """Looks up writers' schemas. Connects to the registry when it first needs it."""

    def __init__(self, spec: KnownSchemas) -> None:
        self._texts = spec.writer_schemas
        self._address = spec.registry
        self._registry: RegistryClient | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._registry is not None:
            self._registry.close()

    def schema(self, schema_id: int) -> AvroSchema:
        """Returns a schema. Raises the errors of `RegistryClient.schema`."""
        if (text := self._texts.get(schema_id)) is not None:
            return parse(text, strict=False)
        if self._registry is None:
            self._registry = RegistryClient(self._address)
        return self._registry.schema(schema_id)

"""Which schema an id means: the driver's word first, then the registry's."""

import pytest

from harness.registry_process import RegistryProcess
from loader.landing.writer_schemas import WriterSchemas
from schemas.errors import InvalidSchema, RegistryRefused
from schemas.registry_client import SCHEMA_NOT_FOUND, RegistryClient
from schemas.remote.address import RegistryAddress
from tests.loader.landing.decoded_batches import a_spec

NOT_STRICT = '{"type":"record","name":"café","fields":[{"name":"n","type":"int","default":"x"}]}'


def test_what_the_driver_knew_is_not_asked_for() -> None:
    spec = a_spec(writer_schemas={4: NOT_STRICT, 5: "no schema"})
    with WriterSchemas(spec) as schemas:
        assert schemas.schema(4).full_name == "café"
        with pytest.raises(InvalidSchema):
            schemas.schema(5)


def test_others_are_the_registrys(running_registry: RegistryProcess, new_topic: str) -> None:
    with RegistryClient(running_registry.url) as registry:
        schema_id = registry.register(f"{new_topic}-value", '"string"')
    with WriterSchemas(a_spec(registry=RegistryAddress(running_registry.url))) as schemas:
        assert schemas.schema(schema_id).text == '"string"'
        with pytest.raises(RegistryRefused) as refused:
            schemas.schema(2_000_000_000)
        assert refused.value.code == SCHEMA_NOT_FOUND

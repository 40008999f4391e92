"""The client of registries and a running one."""

import json
import uuid
from collections.abc import Iterator

import pytest

from harness.registry_process import RegistryProcess
from schemas.errors import InvalidSchema, RegistryRefused
from schemas.registry_client import RegistryClient
from schemas.remote.answers import Reference, SubjectVersion
from tests.schemas.answering import answering, says


@pytest.fixture
def registry(running_registry: RegistryProcess) -> Iterator[RegistryClient]:
    with RegistryClient(running_registry.url) as client:
        yield client


@pytest.fixture
def space() -> str:
    """A namespace that no other test uses."""
    return f"n{uuid.uuid4().hex[:12]}"


def record(name: str, *types: str) -> str:
    fields = [{"name": f"f{number}", "type": each} for number, each in enumerate(types)]
    return json.dumps({"type": "record", "name": name, "fields": fields})


def test_an_id_is_a_schema_with_all_it_needs(registry: RegistryClient, space: str) -> None:
    """C needs B and A, B needs A."""
    needs = {"A": [], "B": ["A"], "C": ["B", "A"]}
    ids = {}
    for name, others in needs.items():
        full = f"{space}.{name}"
        references = [Reference(f"{space}.{each}", f"{space}.{each}", 1) for each in others]
        ids[name] = registry.register(full, record(full, *(others or ["int"])), references)
    schema = registry.schema(ids["C"])
    assert schema.full_name == f"{space}.C"
    resolved = json.loads(schema.resolved_text)
    assert resolved["fields"][0]["type"]["fields"][0]["type"]["fields"][0]["type"] == "int"
    assert registry.schema(ids["C"]) is schema
    assert registry.places_of(ids["C"]) == [SubjectVersion(f"{space}.C", 1)]
    assert sorted(registry.referenced_by(f"{space}.A", 1)) == [ids["B"], ids["C"]]


def test_what_is_registered_is_found(registry: RegistryClient, space: str) -> None:
    subject = f"{space} ü/%2F:?#"
    with pytest.raises(RegistryRefused) as refused:
        registry.register(subject, '"in')
    assert (refused.value.status, refused.value.code) == (422, 42201)
    identity = registry.register(subject, '"int"')
    assert subject in registry.subjects()
    assert registry.versions(subject) == [1]
    found = registry.latest(subject)
    assert found is not None
    assert (found.id, found.text, registry.text_of(identity).text) == (identity, '"int"', '"int"')
    assert registry.lookup(subject, ' "int" ') == found
    assert registry.lookup(subject, '"long"') is None
    assert registry.check(subject, '"long"').is_compatible
    verdict = registry.check(subject, '"string"')
    assert not verdict.is_compatible
    assert any("TYPE_MISMATCH" in each for each in verdict.messages)
    with pytest.raises(RegistryRefused) as refused:
        registry.register(subject, '"string"')
    assert (refused.value.status, refused.value.code) == (409, 40901)


def test_what_is_deleted_is_gone_in_two_steps(registry: RegistryClient, space: str) -> None:
    registry.register(space, '"int"')
    assert registry.delete_version(space, 1) == 1
    assert registry.latest(space) is None
    assert registry.lookup(space, '"int"') is None
    assert registry.lookup(space, '"int"', deleted=True) is not None
    assert space not in registry.subjects()
    assert space in registry.subjects(deleted=True)
    assert registry.delete_subject(space, permanent=True) == [1]
    assert space not in registry.subjects(deleted=True)


def test_levels(registry: RegistryClient, space: str) -> None:
    assert (registry.level(), registry.level(space), registry.mode(space)) == (
        "BACKWARD",
        "BACKWARD",
        "READWRITE",
    )
    assert registry.own_level(space) is None
    registry.set_level(space, "FULL")
    assert (registry.level(space), registry.own_level(space)) == ("FULL", "FULL")
    registry.reset_level(space)
    assert registry.own_level(space) is None


def test_what_is_not_avro_is_said_to_be_none() -> None:
    """As Confluent's registry may hold it."""
    answer = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3";'}
    with answering(says(answer)) as server, RegistryClient(server.url) as registry:
        assert registry.text_of(5).type == "PROTOBUF"
        with pytest.raises(InvalidSchema, match="of type PROTOBUF, not AVRO"):
            registry.schema(5)

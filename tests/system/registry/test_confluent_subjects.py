"""What else Confluent's client for Python asks of a registry: lists, deletions, levels, modes."""

import uuid

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess

STRING, BYTES = Schema('"string"'), Schema('"bytes"')
# What has to be written in another way to stand in a path, and what looks like it.
NAMES = ["plain", "with space", "a/b", "percent%20", "plus+&=?#", "ünïcode 漢", "a:b", ".", "-"]


def refused(error: pytest.ExceptionInfo[SchemaRegistryError]) -> tuple[int, int]:
    return error.value.http_status_code, error.value.error_code


@pytest.mark.parametrize("name", NAMES)
def test_names_survive_the_way(client: SchemaRegistryClient, subject: str, name: str) -> None:
    name = f"{subject} {name}"
    schema_id = client.register_schema(name, STRING)
    assert client.lookup_schema(name, STRING).version == 1
    assert client.get_subjects(subject) == [name]
    assert client.get_version(name, 1).subject == name
    assert name in client.get_subjects_by_schema_id(schema_id)
    assert client.delete_subject(name) == [1]


def test_a_subject_is_deleted_softly_and_for_ever(
    client: SchemaRegistryClient, subject: str
) -> None:
    client.set_compatibility(subject, "NONE")
    first = client.register_schema(subject, STRING)
    second = client.register_schema(subject, BYTES)
    assert client.get_versions(subject) == [1, 2]
    assert client.delete_version(subject, 1) == 1
    assert client.get_versions(subject) == [2]
    with pytest.raises(SchemaRegistryError) as error:
        client.get_version(subject, 1)
    assert refused(error) == (404, 40402)
    assert client.get_version(subject, 1, deleted=True).schema_id == first
    assert client.get_latest_version(subject).schema_id == second
    assert client.delete_subject(subject) == [2]
    assert client.get_subjects(subject) == []
    assert client.get_subjects(subject, deleted=True) == [subject]
    with pytest.raises(SchemaRegistryError) as error:
        client.get_versions(subject)
    assert refused(error) == (404, 40401)
    # What was written with it can still be read.
    assert client.get_schema(first).schema_str == STRING.schema_str
    assert client.delete_subject(subject, permanent=True) == [1, 2]
    assert client.get_subjects(subject, deleted=True) == []


def test_where_a_schema_is(client: SchemaRegistryClient, subject: str) -> None:
    schema = Schema(f'{{"type": "fixed", "name": "F{uuid.uuid4().hex}", "size": 3}}')
    names = [f"{subject}-{number}" for number in range(3)]
    (schema_id,) = {client.register_schema(name, schema) for name in names}
    assert client.get_subjects_by_schema_id(schema_id) == names
    versions = client.get_schema_versions(schema_id)
    assert [(each.subject, each.version) for each in versions] == [(name, 1) for name in names]
    assert client.get_subjects(subject, offset=1, limit=1) == [names[1]]
    assert client.get_schema_types() == ["AVRO"]
    assert client.get_contexts() == ["."]


def test_levels_and_modes_of_a_subject(client: SchemaRegistryClient, subject: str) -> None:
    with pytest.raises(SchemaRegistryError) as error:
        client.get_compatibility(subject)
    assert refused(error) == (404, 40408)
    client.set_compatibility(subject, "FULL_TRANSITIVE")
    assert client.get_compatibility(subject) == "FULL_TRANSITIVE"
    with pytest.raises(SchemaRegistryError) as error:
        client.set_compatibility(subject, "SIDEWAYS")
    assert refused(error) == (422, 42203)
    assert client.get_config(subject).compatibility_level == "FULL_TRANSITIVE"
    client.delete_config(subject)
    assert client.get_compatibility() == "BACKWARD"

    with pytest.raises(SchemaRegistryError) as error:
        client.get_mode(subject)
    assert refused(error) == (404, 40409)
    assert client.update_mode(subject, "READONLY") == "READONLY"
    with pytest.raises(SchemaRegistryError) as error:
        client.register_schema(subject, STRING)
    assert refused(error) == (422, 42205)
    assert client.delete_mode(subject) == "READONLY"
    assert client.register_schema(subject, STRING) > 0
    assert client.get_global_mode() == "READWRITE"


def test_one_of_its_addresses_is_enough(
    running_registry: RegistryProcess, running_broker: BrokerProcess, subject: str
) -> None:
    """The first of them is nobody's, the second a broker's."""
    urls = f"http://127.0.0.1:9,http://{running_broker.bootstrap},{running_registry.url}"
    quick = {"max.retries": 1, "retries.wait.ms": 10}
    with SchemaRegistryClient({"url": urls, **quick}) as client:
        client.register_schema(subject, STRING)
        assert client.get_versions(subject) == [1]

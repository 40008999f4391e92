"""Confluent's client for Python against the registry, its messages through the broker.

What its Avro serializer writes, its deserializer reads, and so does fastavro that knows nothing of
either; what Penstock's envelope writes, its deserializer reads. And all that the client asks of
subjects: lists, deletions, levels, modes.
"""

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from schemas.envelope import Encoder, split
from schemas.parsing import parse
from tests.system.registry.topics import receive, send

STRING, BYTES = Schema('"string"'), Schema('"bytes"')
# What has to be written in another way to stand in a path, and what looks like it.
NAMES = ["plain", "with space", "a/b", "percent%20", "plus+&=?#", "ünïcode 漢", "a:b", ".", "-"]
LATEST = {"auto.register.schemas": False, "use.latest.version": True}


def record(name: str, *fields: dict[str, Any], **more: Any) -> str:
    return json.dumps({"type": "record", "name": name, **more, "fields": fields})


def field(name: str, of: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": of, **more}


TAGS = {"type": "map", "values": "string"}
VIEW = record("View", field("page", "string"), field("tags", TAGS), namespace="shop")
VIEW_2 = record(
    "View",
    field("page", "string"),
    field("tags", TAGS),
    field("user", ["null", "string"], default=None),
    namespace="shop",
)
VIEWS = [{"page": f"/{number}", "tags": {"n": str(number), "ä": "ö"}} for number in range(3)]


def refused(error: pytest.ExceptionInfo[SchemaRegistryError]) -> tuple[int, int]:
    return error.value.http_status_code, error.value.error_code


def in_value(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def serialized(
    client: SchemaRegistryClient, topic: str, schema: str | Schema | None, *values: Any, **conf: Any
) -> list[bytes]:
    serializer = AvroSerializer(client, schema, conf=conf)
    written = [serializer(value, in_value(topic)) for value in values]
    return [bytes(each) for each in written if each is not None]


def deserialized(
    client: SchemaRegistryClient, topic: str, *messages: bytes, reader: str | None = None
) -> list[Any]:
    deserializer = AvroDeserializer(client, reader)
    return [deserializer(each, in_value(topic)) for each in messages]


def test_what_is_produced_is_consumed(
    client: SchemaRegistryClient,
    running_broker: BrokerProcess,
    running_registry: RegistryProcess,
    new_topic: str,
) -> None:
    """By its deserializer, and by fastavro alone. The schema registers itself, once, under the
    topic's name; Penstock's envelope writes the same bytes."""
    written = serialized(client, new_topic, VIEW, *VIEWS)
    send(running_broker.bootstrap, new_topic, *written)
    messages = receive(running_broker.bootstrap, new_topic, 3)
    with SchemaRegistryClient(client.config()) as another:
        assert deserialized(another, new_topic, *messages) == VIEWS
        assert another.get_versions(f"{new_topic}-value") == [1]
    schema_id, _ = split(messages[0])
    answer = running_registry.ask("GET", f"/schemas/ids/{schema_id}")
    schema = fastavro.parse_schema(json.loads(answer.body["schema"]))
    bodies = [BytesIO(split(message)[1]) for message in messages]
    assert [fastavro.schemaless_reader(body, schema) for body in bodies] == VIEWS
    assert Encoder(parse(VIEW), schema_id).encode_many(VIEWS) == messages


def test_readers_and_writers_of_different_versions(
    client: SchemaRegistryClient, new_topic: str
) -> None:
    (old,) = serialized(client, new_topic, VIEW, VIEWS[0])
    (new,) = serialized(client, new_topic, VIEW_2, {**VIEWS[0], "user": "eve"})
    assert client.get_versions(f"{new_topic}-value") == [1, 2]
    assert deserialized(client, new_topic, old, new, reader=VIEW) == [VIEWS[0], VIEWS[0]]
    assert deserialized(client, new_topic, old, new, reader=VIEW_2) == [
        {**VIEWS[0], "user": None},
        {**VIEWS[0], "user": "eve"},
    ]


def test_the_latest_version_is_used(client: SchemaRegistryClient, new_topic: str) -> None:
    subject = f"{new_topic}-value"
    with pytest.raises(SchemaRegistryError, match="not found") as error:
        serialized(client, new_topic, VIEW, VIEWS[0], **LATEST)
    assert refused(error) == (404, 40401)
    client.register_schema(subject, Schema(VIEW))
    latest = client.register_schema(subject, Schema(VIEW_2))
    (written,) = serialized(client, new_topic, None, {**VIEWS[0], "user": "eve"}, **LATEST)
    assert split(written)[0] == latest
    assert client.get_versions(subject) == [1, 2]


def test_normalized_schemas_are_one(client: SchemaRegistryClient, new_topic: str) -> None:
    """In one subject they are anyway; in two they have one id only if both are normalized."""
    one = record("R", field("a", {"type": "string"}, x=1, b=2))
    same = record("R", field("a", "string", b=2, x=1))

    def messages(name: str, **conf: bool) -> list[bytes]:
        first = serialized(client, f"{new_topic}-{name}-1", one, {"a": "1"}, **conf)
        return first + serialized(client, f"{new_topic}-{name}-2", same, {"a": "1"}, **conf)

    first, second = messages("normalized", **{"normalize.schemas": True})
    assert first == second
    first, second = messages("as-it-is")
    assert first != second


def test_a_schema_that_refers_to_others(client: SchemaRegistryClient, new_topic: str) -> None:
    page, user = f"{new_topic}-page", f"{new_topic}-user"
    client.register_schema(user, Schema(record("User", field("name", "string"), namespace="s")))
    page_schema = record("Page", field("owner", "s.User"), field("url", "string"), namespace="s")
    owned = SchemaReference("s.User", user, 1)
    page_id = client.register_schema(page, Schema(page_schema, references=[owned]))
    view = Schema(
        record("View", field("page", "s.Page"), field("by", ["null", "s.User"])),
        references=[SchemaReference("s.Page", page, 1), owned],
    )
    seen = {"page": {"owner": {"name": "a"}, "url": "/"}, "by": {"name": "b"}}
    messages = serialized(client, new_topic, view, seen)
    with SchemaRegistryClient(client.config()) as another:
        assert deserialized(another, new_topic, *messages) == [seen]
        (view_id,) = another.get_referenced_by(page, 1)
        assert sorted(another.get_referenced_by(user, 1)) == sorted([page_id, view_id])
        assert another.get_schema(view_id).references == view.references
    with pytest.raises(SchemaRegistryError) as error:
        client.delete_version(page, 1)
    assert refused(error) == (422, 42206)


@pytest.mark.parametrize("name", NAMES)
def test_names_survive_the_way(client: SchemaRegistryClient, subject: str, name: str) -> None:
    name = f"{subject} {name}"
    schema_id = client.register_schema(name, STRING)
    assert client.lookup_schema(name, STRING).version == 1
    assert client.get_subjects(subject) == [name]
    assert client.get_version(name, 1).subject == name
    assert name in client.get_subjects_by_schema_id(schema_id)
    assert client.delete_subject(name) == [1]

"""Confluent's client for Python against the registry, its messages through the broker.

What its Avro serializer writes, its deserializer reads, and so does fastavro that knows nothing of
either; what Penstock's envelope writes, its deserializer reads.
"""

import json
from io import BytesIO
from threading import Barrier, Thread
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from schemas.envelope import Encoder, split
from schemas.parsing import parse
from tests.system.registry.messages import receive, send

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
    client: SchemaRegistryClient, running_broker: BrokerProcess, new_topic: str
) -> None:
    """The schema registers itself, once, under the topic's name."""
    send(running_broker.bootstrap, new_topic, *serialized(client, new_topic, VIEW, *VIEWS))
    messages = receive(running_broker.bootstrap, new_topic, 3)
    with SchemaRegistryClient(client.config()) as another:
        assert deserialized(another, new_topic, *messages) == VIEWS
        assert another.get_versions(f"{new_topic}-value") == [1]


def test_fastavro_alone_reads_it(
    client: SchemaRegistryClient,
    running_broker: BrokerProcess,
    running_registry: RegistryProcess,
    new_topic: str,
) -> None:
    send(running_broker.bootstrap, new_topic, *serialized(client, new_topic, VIEW, *VIEWS))
    for message, view in zip(receive(running_broker.bootstrap, new_topic, 3), VIEWS, strict=True):
        schema_id, body = split(message)
        answer = running_registry.ask("GET", f"/schemas/ids/{schema_id}")
        schema = fastavro.parse_schema(json.loads(answer.body["schema"]))
        assert fastavro.schemaless_reader(BytesIO(body), schema) == view


def test_penstocks_envelope_is_read(
    client: SchemaRegistryClient, running_broker: BrokerProcess, new_topic: str
) -> None:
    schema_id = client.register_schema(f"{new_topic}-value", Schema(VIEW))
    encoder = Encoder(parse(VIEW), schema_id)
    send(running_broker.bootstrap, new_topic, *encoder.encode_many(VIEWS))
    messages = receive(running_broker.bootstrap, new_topic, 3)
    assert deserialized(client, new_topic, *messages) == VIEWS
    assert messages == serialized(client, new_topic, VIEW, *VIEWS)


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
    with pytest.raises(SchemaRegistryError, match="not found") as refused:
        serialized(client, new_topic, VIEW, VIEWS[0], **LATEST)
    assert (refused.value.http_status_code, refused.value.error_code) == (404, 40401)
    client.register_schema(subject, Schema(VIEW))
    latest = client.register_schema(subject, Schema(VIEW_2))
    (written,) = serialized(client, new_topic, None, {**VIEWS[0], "user": "eve"}, **LATEST)
    assert split(written)[0] == latest
    assert client.get_versions(subject) == [1, 2]


def test_nothing_registers_itself_where_that_is_forbidden(
    client: SchemaRegistryClient, new_topic: str
) -> None:
    client.register_schema(f"{new_topic}-value", Schema(VIEW))
    known = {"auto.register.schemas": False}
    assert serialized(client, new_topic, VIEW, VIEWS[0], **known)
    with pytest.raises(SchemaRegistryError, match="Schema not found") as refused:
        serialized(client, new_topic, VIEW_2, {**VIEWS[0], "user": None}, **known)
    assert (refused.value.http_status_code, refused.value.error_code) == (404, 40403)
    assert client.get_versions(f"{new_topic}-value") == [1]


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
    with pytest.raises(SchemaRegistryError) as refused:
        client.delete_version(page, 1)
    assert (refused.value.http_status_code, refused.value.error_code) == (422, 42206)


def test_an_incompatible_change_is_refused(client: SchemaRegistryClient, new_topic: str) -> None:
    subject = f"{new_topic}-value"
    client.register_schema(subject, Schema(VIEW))
    changed = record("View", field("page", "int"), field("ip", "string"), namespace="shop")
    with pytest.raises(SchemaRegistryError) as refused:
        serialized(client, new_topic, changed, {"page": 1, "ip": "::1"})
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 40901)
    said = refused.value.error_message
    assert subject in said
    assert "The type (path '/fields/0/type') of a field in the new schema does not match" in said
    assert "The field 'ip' at path '/fields/1' in the new schema has no default value" in said
    assert client.test_compatibility(subject, Schema(VIEW_2)) is True
    assert client.test_compatibility(subject, Schema(changed)) is False
    assert client.test_compatibility_all_versions(subject, Schema(changed), verbose=True) is False
    client.set_compatibility(subject, "NONE")
    assert client.test_compatibility_all_versions(subject, Schema(changed)) is True
    serialized(client, new_topic, changed, {"page": 1, "ip": "::1"})
    assert client.get_versions(subject) == [1, 2]


def test_one_schema_registered_by_many_at_once(
    running_registry: RegistryProcess, subject: str
) -> None:
    """Each has a client of its own, so that none finds the id in a cache."""
    together, ids = Barrier(8), []

    def register(number: int) -> None:
        with SchemaRegistryClient({"url": running_registry.url}) as client:
            together.wait()
            ids.append(client.register_schema(f"{subject}-{number % 2}", Schema(VIEW_2)))

    threads = [Thread(target=register, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 8
    assert len(set(ids)) == 1

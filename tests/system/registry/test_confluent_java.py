"""Confluent's Java client, serializer and console tools against the registry and the broker; the
client also at a registry behind locks."""

import json
import uuid
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from py4j.protocol import Py4JJavaError

from harness.java.maven_jars import JarsUnavailable
from harness.kafka.apache_kafka import kafka_classpath, run_tool, why_no_kafka
from harness.logins.made_secrets import made_secret
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from schemas.envelope import Encoder, split
from schemas.parsing import parse
from tests.registry.locked import TOKEN, Locks
from tests.system.registry.confluent_java import NEW, OLD, Confluent, Java, jar, refusal
from tests.system.registry.topics import receive, send

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "item", "type": "string"},
            {"name": "count", "type": "int", "default": 1},
        ],
    }
)
OTHER = ORDER.replace('"item"', '"article"')
CLIENT = "io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient"
SCHEMA = "io.confluent.kafka.schemaregistry.avro.AvroSchema"
SERIALIZERS = "io.confluent.kafka.serializers"


@pytest.fixture(
    scope="module", params=[pytest.param(OLD, marks=pytest.mark.long), NEW], ids=lambda e: e.version
)
def java(request: pytest.FixtureRequest) -> Iterator[Java]:
    confluent: Confluent = request.param
    try:
        running = Java(confluent)
    except JarsUnavailable as reason:
        pytest.skip(f"Confluent's Java classes cannot be had: {reason}")
    with running:
        yield running


@pytest.fixture
def client(java: Java, running_registry: RegistryProcess) -> Any:
    """Confluent's Java client, which remembers nothing of other tests."""
    return java.new(CLIENT, running_registry.url, 100)


def refused(error: pytest.ExceptionInfo[Py4JJavaError]) -> tuple[int, int]:
    found = refusal(error.value)
    assert found is not None, error.value
    return found.status, found.code


def test_the_life_of_a_subject(java: Java, client: Any, subject: str) -> None:
    """Each answer is read into a class that knows its fields, by an old one no others."""
    order, other = java.new(SCHEMA, ORDER), java.new(SCHEMA, OTHER)
    schema_id = client.register(subject, order)
    assert client.getSchemaById(schema_id).canonicalString() == json.dumps(
        json.loads(ORDER), separators=(",", ":")
    )
    assert client.getId(subject, order) == schema_id
    assert client.getVersion(subject, order) == 1
    latest = client.getLatestSchemaMetadata(subject)
    assert (latest.getId(), latest.getVersion(), latest.getSchemaType()) == (schema_id, 1, "AVRO")
    assert client.getSchemaMetadata(subject, 1).getId() == schema_id
    assert subject in client.getAllSubjects()
    assert subject in client.getAllSubjectsById(schema_id)
    assert client.testCompatibility(subject, other) is False
    with pytest.raises(Py4JJavaError) as error:
        client.register(subject, other)
    assert refused(error) == (409, 40901)
    assert client.updateCompatibility(subject, "NONE") == "NONE"
    assert client.getCompatibility(subject) == "NONE"
    assert client.testCompatibility(subject, other) is True
    assert client.register(subject, other) != schema_id
    assert list(client.getAllVersions(subject)) == [1, 2]
    assert client.deleteSchemaVersion(subject, "1") == 1
    assert client.setMode("READONLY", subject) == "READONLY"
    with pytest.raises(Py4JJavaError) as error:
        client.deleteSubject(subject)
    assert refused(error) == (422, 42205)
    assert client.setMode("READWRITE", subject) == "READWRITE"
    assert client.getMode(subject) == "READWRITE"
    assert list(client.deleteSubject(subject)) == [2]
    with pytest.raises(Py4JJavaError) as error:
        client.getLatestSchemaMetadata(subject)
    assert refused(error) == (404, 40401)


def test_a_schema_that_refers_to_another(
    java: Java, client: Any, running_registry: RegistryProcess, subject: str
) -> None:
    client.register(f"{subject}-order", java.new(SCHEMA, ORDER))
    entities = "io.confluent.kafka.schemaregistry.client.rest.entities"
    reference = java.new(f"{entities}.SchemaReference", "shop.Order", f"{subject}-order", 1)
    basket = '{"type": "array", "items": "shop.Order"}'
    schema = java.new(SCHEMA, basket, [reference], {"shop.Order": ORDER}, None)
    schema_id = client.register(subject, schema)
    # One without a cache asks for all that it refers to.
    found = java.new(CLIENT, running_registry.url, 100).getSchemaById(schema_id)
    assert found.references()[0].getName() == "shop.Order"
    assert found.rawSchema().getElementType().getFullName() == "shop.Order"


@pytest.fixture(scope="module")
def locks(tmp_path_factory: pytest.TempPathFactory) -> Locks:
    return Locks(tmp_path_factory.mktemp("locks"))


@pytest.fixture(scope="module")
def locked_registry(
    locks: Locks, tmp_path_factory: pytest.TempPathFactory, running_broker: BrokerProcess
) -> Iterator[RegistryProcess]:
    settings = {"topic": f"_schemas_{uuid.uuid4().hex[:12]}"}
    directory = tmp_path_factory.mktemp("locked-registry")
    with locks.registry(directory, running_broker.bootstrap, settings=settings) as running:
        yield running


@pytest.fixture
def believing(java: Java, locks: Locks, tmp_path: Path) -> dict[str, str]:
    """Settings of a client that believes the authority, from a file of a form that both read."""
    certificates = java.find("java.security.cert.CertificateFactory").getInstance("X.509")
    opened = java.new("java.io.FileInputStream", str(locks.authority.ca))
    store = java.find("java.security.KeyStore").getInstance("PKCS12")
    store.load(None, None)
    store.setCertificateEntry("authority", certificates.generateCertificate(opened))
    path, password = str(tmp_path / "believed.p12"), "no secret"
    store.store(java.new("java.io.FileOutputStream", path), java.array("char", *password))
    return {
        "schema.registry.ssl.truststore.type": "PKCS12",
        "schema.registry.ssl.truststore.location": path,
        "schema.registry.ssl.truststore.password": password,
    }


def by_password(user: str, password: str) -> dict[str, str]:
    return {
        "basic.auth.credentials.source": "USER_INFO",
        "basic.auth.user.info": f"{user}:{password}",
    }


def test_a_registry_behind_locks(
    java: Java, believing: dict[str, str], locked_registry: RegistryProcess, subject: str
) -> None:
    def client(*settings: dict[str, str]) -> Any:
        together = {name: value for each in settings for name, value in each.items()}
        return java.new(CLIENT, locked_registry.url, 100, together)

    schema = java.new(SCHEMA, ORDER)
    alice = by_password("alice", made_secret("alice"))
    right = client(believing, alice)
    schema_id = right.register(f"pay-{subject}", schema)
    assert right.getVersion(f"pay-{subject}", schema) == 1
    token = {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": TOKEN}
    assert client(believing, token).getId(f"pay-{subject}", schema) == schema_id

    with pytest.raises(Py4JJavaError) as error:
        right.register(subject, schema)
    assert refused(error) == (403, 40301)
    for wrong in (by_password("alice", "wrong"), {}):
        with pytest.raises(Py4JJavaError) as error:
            client(believing, wrong).getAllSubjects()
        assert refused(error) == (401, 40101)
    with pytest.raises(Py4JJavaError, match="PKIX path building failed"):
        client(alice).getAllSubjects()


def order(java: Java, **values: Any) -> Any:
    """A record of ORDER, with its defaults."""
    schema = java.new(SCHEMA, ORDER).rawSchema()
    builder = java.new("org.apache.avro.generic.GenericRecordBuilder", schema)
    for name, value in values.items():
        builder = builder.set(name, value)
    return builder.build()


def at(broker: BrokerProcess, registry: RegistryProcess) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap, "schema.registry.url": registry.url}


def test_what_java_writes_fastavro_reads(
    java: Java, running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> None:
    producer = java.configured(
        "kafka:clients.producer.KafkaProducer",
        {
            **at(running_broker, running_registry),
            "key.serializer": java.kafka("common.serialization.StringSerializer"),
            "value.serializer": f"{SERIALIZERS}.KafkaAvroSerializer",
        },
    )
    for written in (order(java, item="bread"), order(java, item="wein ä", count=3)):
        sent = java.new("kafka:clients.producer.ProducerRecord", new_topic, written)
        producer.send(sent).get()
    producer.close()
    messages = receive(running_broker.bootstrap, new_topic, 2)
    latest = running_registry.ask("GET", f"/subjects/{new_topic}-value/versions/latest").body
    schema = fastavro.parse_schema(json.loads(latest["schema"]))
    assert [split(message)[0] for message in messages] == [latest["id"]] * 2
    assert [
        fastavro.schemaless_reader(BytesIO(split(message)[1]), schema) for message in messages
    ] == [{"item": "bread", "count": 1}, {"item": "wein ä", "count": 3}]


def test_what_penstocks_envelope_writes_java_reads(
    java: Java, running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> None:
    answer = running_registry.register(f"{new_topic}-value", json.loads(ORDER))
    encoder = Encoder(parse(ORDER), answer.body["id"])
    orders = [{"item": "käse", "count": -1}, {"item": "", "count": 2**31 - 1}]
    send(running_broker.bootstrap, new_topic, *encoder.encode_many(orders))
    consumer = java.configured(
        "kafka:clients.consumer.KafkaConsumer",
        {
            **at(running_broker, running_registry),
            "key.deserializer": java.kafka("common.serialization.StringDeserializer"),
            "value.deserializer": f"{SERIALIZERS}.KafkaAvroDeserializer",
        },
    )
    partition = java.new("kafka:common.TopicPartition", new_topic, 0)
    consumer.assign([partition])
    consumer.seekToBeginning([partition])
    found = consumer.poll(java.find("java.time.Duration").ofSeconds(20)).records(partition)
    assert [json.loads(each.value().toString()) for each in found] == orders
    consumer.close()


@pytest.mark.long
def test_the_console_tools(
    running_broker: BrokerProcess,
    running_registry: RegistryProcess,
    new_topic: str,
    tmp_path: Path,
) -> None:
    """kafka-avro-console-producer and kafka-avro-console-consumer, as their scripts run them."""
    if kafka_classpath() is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka()}")
    try:
        classpath = f"{kafka_classpath()}:{jar(NEW)}"
    except JarsUnavailable as reason:
        pytest.skip(f"Confluent's Java classes cannot be had: {reason}")
    lines = [json.dumps({"item": item, "count": 7}, ensure_ascii=False) for item in ("a", "ö")]
    formatters = "io.confluent.kafka.formatter"

    def run(tool: str, *arguments: str, stdin: str = "") -> str:
        registry = ["--property", f"schema.registry.url={running_registry.url}"]
        where = ["--bootstrap-server", running_broker.bootstrap, "--topic", new_topic]
        command = ["-cp", classpath, tool, *where, *arguments, *registry]
        return run_tool(*command, directory=tmp_path, stdin=stdin.encode()).stdout.decode()

    reader = ["--line-reader", f"{formatters}.AvroMessageReader"]
    schema = ["--property", f"value.schema={ORDER}"]
    run("kafka.tools.ConsoleProducer", *reader, *schema, stdin="\n".join(lines))
    (version,) = running_registry.ask("GET", f"/subjects/{new_topic}-value/versions").body
    found = running_registry.ask("GET", f"/subjects/{new_topic}-value/versions/{version}").body

    where = ["--partition", "0", "--offset", "earliest", "--max-messages", "2"]
    formatter = ["--formatter", f"{formatters}.AvroMessageFormatter"]
    ids = ["--timeout-ms", "20000", "--property", "print.schema.ids=true"]
    shown = run("org.apache.kafka.tools.consumer.ConsoleConsumer", *where, *formatter, *ids)
    values, numbers = zip(*(line.split("\t") for line in shown.splitlines()), strict=True)
    assert [json.loads(value) for value in values] == [json.loads(line) for line in lines]
    assert numbers == (str(found["id"]),) * 2

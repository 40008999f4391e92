"""What tests of messages write into topics: events, what is none, and damage."""

from collections.abc import Sequence
from typing import Final

from client.admin.topics import create_topic
from client.connection.brokers import Brokers
from client.producing.producer import Producer
from harness.penstock.broker import BrokerProcess
from schemas.envelope import Encoder
from schemas.event_schemas import DEAD_LETTER, LOG_LINE, built_in
from schemas.registry_client import RegistryClient
from tests.schemas.events import header

SCRIPT: Final = "<script>hacked()</script>\x1b[31m\u202egol\nat line 2"


def log_line(registry: RegistryClient, topic: str, message: str, **head: object) -> bytes:
    schema = built_in(LOG_LINE)
    encoder = Encoder(schema, registry.register(f"{topic}-value", schema.text))
    return encoder.encode({"header": header(**head), "path": "/l", "message": message})


def dead_letter(registry: RegistryClient, topic: str, raw: bytes, **head: object) -> bytes:
    schema = built_in(DEAD_LETTER)
    encoder = Encoder(schema, registry.register(f"{topic}.dead-value", schema.text))
    said = {"topic": topic, "reason": "`user`: no number", "raw": raw, "offset": 7, "path": "/l"}
    return encoder.encode({"header": header(**head), **said, "size": -1})


def write(brokers: Brokers, topic: str, values: Sequence[bytes], **configs: str) -> None:
    """Each value as a batch of its own."""
    if not brokers.refresh([topic]).has(topic):
        create_topic(brokers, topic, partitions=1, configs=configs)
    producer = Producer(brokers, topic, batch_bytes=1)
    for value in values:
        producer.send(value, b"key", partition=0)
        producer.flush()


def spoil(broker: BrokerProcess, topic: str, byte: bytes) -> None:
    """Changes a byte of the first batch that has it, on the disk."""
    (segment,) = broker.partition_dir(topic).glob("*.log")
    content = segment.read_bytes()
    with segment.open("r+b") as file:
        file.seek(content.index(byte))
        file.write(bytes([byte[0] ^ 1]))

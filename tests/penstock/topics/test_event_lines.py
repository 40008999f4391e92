"""`penstock consume --events`: what agents have written, as people read it."""

import json
import math
from struct import pack

import pytest
from confluent_kafka import Producer

from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from penstock.topics.event_lines import EventLines
from schemas.envelope import Encoder
from schemas.errors import BadMessage
from schemas.event_schemas import LOG_LINE, built_in
from schemas.parsing import parse
from schemas.registry_client import RegistryClient
from tests.penstock.running import At
from tests.schemas.events import header

PARTS = """{"type": "record", "name": "Parts", "fields": [
    {"name": "raw", "type": "bytes"},
    {"name": "tags", "type": {"type": "map", "values": ["null", "bytes"]}},
    {"name": "sums", "type": {"type": "array", "items": "double"}}]}"""


def test_events_are_lines_of_json_and_what_is_none_is_said(
    at: At, running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> None:
    schema = built_in(LOG_LINE)
    with RegistryClient(running_registry.url) as registry:
        schema_id = registry.register(f"{new_topic}-value", schema.text)
    event = {"header": header(), "path": "/var/log/ü.log", "message": "a\tline"}
    producer = Producer({"bootstrap.servers": running_broker.bootstrap})
    at.output("topics", "create", new_topic)
    for value in (Encoder(schema, schema_id).encode(event), b"no event", None):
        producer.produce(new_topic, value, partition=0)
    producer.flush(30)

    asked = ["consume", new_topic, "--from", "beginning", "--to-end", "--events"]
    ended = at.run(*asked, "--registry", running_registry.url)
    assert ended.returncode == 0
    assert [json.loads(line) for line in ended.stdout.splitlines()] == [event]
    assert ended.stderr.splitlines() == [
        f"penstock: {new_topic}-0, offset 1: it begins with byte 110 and not with 0: "
        "it names no schema",
        f"penstock: {new_topic}-0, offset 2: it has no value",
    ]
    document = json.loads(at.run(*asked, "--json", "-r", running_registry.url).stdout)
    assert (document["offset"], document["event"]) == (0, event)
    assert "value" not in document


def test_bytes_are_text_or_base64(running_registry: RegistryProcess, new_topic: str) -> None:
    with RegistryClient(running_registry.url) as registry:
        schema_id = registry.register(f"{new_topic}-value", PARTS)
        value = {
            "raw": b"\xff\x00",
            "tags": {"a": b"text", "b": None},
            "sums": [1.5, math.inf, math.nan],
        }
        events = EventLines(registry)
        message = Encoder(parse(PARTS), schema_id).encode(value)
        assert events.event(message) == {
            "raw": {"base64": "/wA="},
            "tags": {"a": "text", "b": None},
            "sums": [1.5, "inf", "nan"],
        }
        with pytest.raises(BadMessage, match="there is no schema 2147483647"):
            events.event(pack(">BI", 0, 2**31 - 1) + b"body")

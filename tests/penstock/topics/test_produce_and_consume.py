"""`penstock produce` and `penstock consume`, against a running broker."""

import json
import math
import os
import select
import signal
import time
from datetime import datetime
from pathlib import Path
from struct import pack

import pytest
from confluent_kafka import Producer

from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from penstock.topics.event_lines import EventLines
from schemas.envelope import Encoder
from schemas.errors import BadMessage
from schemas.event_schemas import LOG_LINE, built_in
from schemas.parsing import parse
from schemas.registry_client import RegistryClient
from tests.penstock.running import At, penstock_bytes
from tests.penstock.terminals import on_a_terminal, typed
from tests.schemas.events import header

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
PARTS = """{"type": "record", "name": "Parts", "fields": [
    {"name": "raw", "type": "bytes"},
    {"name": "tags", "type": {"type": "map", "values": ["null", "bytes"]}},
    {"name": "sums", "type": {"type": "array", "items": "double"}}]}"""


def all_of(topic: str) -> list[str]:
    return ["consume", topic, "--from", "beginning", "--to-end"]


@pytest.mark.parametrize(
    ("codec", "acks"), [*((codec, "all") for codec in CODECS), ("zstd", "1"), ("none", "0")]
)
def test_lines_in_lines_out(at: At, new_topic: str, codec: str, acks: str) -> None:
    lines = "".join(f"line {number} ü\t\x00\n" for number in range(1000)) + "\nno newline"
    at.output("topics", "create", new_topic)
    sending = ["produce", new_topic, "--codec", codec, "--acks", acks, "--batch", "3000"]
    assert at.output(*sending, stdin=lines) == ""
    received = at.output("consume", new_topic, "--from", "beginning", "--count", "1002")
    assert received == lines + "\n"


def test_a_file_is_sent(at: At, new_topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\r\n\xff\xfe\n" * 3)
    sent = {"messages": 6, "partitions": {"0": {"first": 0, "last": 5}}}
    assert at.json("produce", new_topic, "--file", str(path)) == {"topic": new_topic, **sent}
    assert penstock_bytes(*at.arguments(*all_of(new_topic))).stdout == path.read_bytes()


def test_nothing_in_nothing_out(at: At, new_topic: str) -> None:
    assert at.json("produce", new_topic) == {"topic": new_topic, "messages": 0, "partitions": {}}
    assert at.output(*all_of(new_topic)) == ""


def test_keys(at: At, new_topic: str) -> None:
    at.output("topics", "create", new_topic, "--partitions", "3")
    at.output("produce", new_topic, "--key-separator", "::", stdin="k1::a\nk2::b::c\nk1::\n")
    documents = at.json(*all_of(new_topic))
    pairs = {(each["key"], each["value"]) for each in documents}
    assert pairs == {("k1", "a"), ("k2", "b::c"), ("k1", "")}
    assert len({each["partition"] for each in documents if each["key"] == "k1"}) == 1
    printed = at.output(*all_of(new_topic), "--key-separator", "=")
    assert sorted(printed.splitlines()) == ["k1=", "k1=a", "k2=b::c"]
    refused = at.refused("produce", new_topic, "--key-separator", ":", stdin="no key\n")
    assert refused == "penstock: no ':' in line 'no key'"


def test_json_holds_all_there_is(at: At, new_topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"\xff")
    before = time.time_ns() // 1_000_000
    at.output("produce", new_topic, "--file", str(path))
    document = at.json(*all_of(new_topic))
    assert before <= document.pop("timestamp") <= time.time_ns() // 1_000_000
    place = {"partition": 0, "offset": 0, "key": None}
    assert document == {**place, "value_base64": "/w==", "headers": []}


def test_where_reading_begins_and_ends(at: At, new_topic: str) -> None:
    at.output("topics", "create", new_topic, "--partitions", "2")
    for partition in ("0", "1"):
        lines = "".join(f"{partition}{number}\n" for number in range(5))
        at.output("produce", new_topic, "--partition", partition, stdin=lines)
    one = ["consume", new_topic, "--partition", "1", "--to-end"]
    for options, read in (
        (["--from", "3"], "13\n14\n"),
        (["--from", "beginning", "--count", "2"], "10\n11\n"),
        (["--from", "end"], ""),
        (["--from", "2001-01-01T00:00:00Z", "--count", "1"], "10\n"),
        (["--from", "2099-01-01"], ""),
    ):
        assert at.output(*one, *options) == read, options
    assert sorted(at.output(*all_of(new_topic)).split()) == [
        f"{partition}{number}" for partition in (0, 1) for number in range(5)
    ]
    beyond = at.refused("consume", new_topic, "--partition", "1", "--from", "9")
    assert beyond == f"penstock: {new_topic}-1: offset 9 is not, or no longer, in the log"


def test_what_does_not_exist(at: At, new_topic: str) -> None:
    at.output("topics", "create", new_topic)
    for command in ("consume", "topics describe"):
        said = at.refused(*command.split(), f"{new_topic}s")
        assert said == f"penstock: no topic {new_topic}s; did you mean {new_topic}?"
    for command in ("consume", "produce"):
        said = at.refused(command, new_topic, "--partition", "7", stdin="x\n")
        assert said == f"penstock: topic {new_topic}: no partition 7, only 0 to 0"


def test_a_line_is_through_before_the_input_ends(at: At, new_topic: str) -> None:
    at.output("topics", "create", new_topic)
    consume = ["consume", new_topic, "--from", "beginning"]
    with at.running(*consume) as consumer, at.running("produce", new_topic) as producer:
        for line in (b"one\n", b"two\n"):
            producer.stdin.write(line)
            producer.stdin.flush()
            assert select.select([consumer.stdout], [], [], 60)[0]
            assert os.read(consumer.stdout.fileno(), 100) == line
        producer.stdin.close()
        assert producer.wait() == 0


def test_ctrl_c_is_quiet(at: At, new_topic: str) -> None:
    at.output("produce", new_topic, stdin="x\n")
    with at.running("consume", new_topic, "--from", "beginning") as process:
        assert process.stdout.read(2) == b"x\n"
        assert process.end(signal.SIGINT) == 130
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


def test_a_reader_that_goes_away_is_no_error(at: At, new_topic: str) -> None:
    at.output("produce", new_topic, stdin="a line\n" * 100_000)
    with at.running(*all_of(new_topic)) as process:
        assert process.stdout.read(7) == b"a line\n"
        process.stdout.close()
        assert process.wait() == 141
        assert process.stderr.read() == b""


def test_what_a_terminal_has(at: At, new_topic: str, tmp_path: Path) -> None:
    """A message cannot command it; there are tables, and a summary of what was sent."""
    path = tmp_path / "lines"
    path.write_bytes(b"a\x1b[2Jb\xff\tc\n")
    at.output("produce", new_topic, "--file", str(path))
    time, line = on_a_terminal(*at.arguments(*all_of(new_topic))).split("  ")
    assert line == "a\\x1b[2Jb\\xff\tc\r\n"
    (message,) = [at.json(*all_of(new_topic))]
    assert datetime.fromisoformat(time).timestamp() * 1000 == message["timestamp"]
    assert time.endswith("Z")
    drawn = on_a_terminal(*at.arguments("topics", "describe", new_topic))
    assert "─" in drawn
    assert "partition" in drawn
    said = on_a_terminal(*at.arguments("produce", new_topic))
    assert said.startswith(f"0 messages to {new_topic} in ")


def test_whoever_types_messages_is_told_how_to_end(at: At, new_topic: str) -> None:
    with typed("typed\n\x04") as terminal:
        ended = at.run("produce", new_topic, stdin=terminal)
    said = (
        "Each line is sent when you press Enter; Ctrl-D ends.\n"
        f"penstock: created topic {new_topic}: 1 partition; if the name is a typo: "
        f"penstock topics delete {new_topic}\n"
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", said)
    assert at.output(*all_of(new_topic)) == "typed\n"


def test_events_are_lines_of_json_and_what_is_none_is_said(
    at: At, running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> None:
    """What agents have written, as people read it."""
    schema = built_in(LOG_LINE)
    with RegistryClient(running_registry.url) as registry:
        schema_id = registry.register(f"{new_topic}-value", schema.text)
    event = {"header": header(), "path": "/var/log/ü.log", "message": "a\tline"}
    producer = Producer({"bootstrap.servers": running_broker.bootstrap})
    at.output("topics", "create", new_topic)
    for value in (Encoder(schema, schema_id).encode(event), b"no event", None):
        producer.produce(new_topic, value, partition=0)
    producer.flush(30)
    asked = [*all_of(new_topic), "--events", "--registry", running_registry.url]
    ended = at.run(*asked)
    assert ended.returncode == 0
    assert [json.loads(line) for line in ended.stdout.splitlines()] == [event]
    assert ended.stderr.splitlines() == [
        f"penstock: {new_topic}-0, offset 1: the message begins with byte 110, not with 0: "
        "it names no schema",
        f"penstock: {new_topic}-0, offset 2: it has no value",
    ]
    document = json.loads(at.run(*asked, "--json").stdout)
    assert (document["offset"], document["event"]) == (0, event)
    assert "value" not in document


def test_bytes_are_text_or_base64(running_registry: RegistryProcess, new_topic: str) -> None:
    sums = [1.5, math.inf, math.nan]
    value = {"raw": b"\xff\x00", "tags": {"a": b"text", "b": None}, "sums": sums}
    with RegistryClient(running_registry.url) as registry:
        schema_id = registry.register(f"{new_topic}-value", PARTS)
        events = EventLines(registry)
        assert events.event(Encoder(parse(PARTS), schema_id).encode(value)) == {
            "raw": {"base64": "/wA="},
            "tags": {"a": "text", "b": None},
            "sums": [1.5, "inf", "nan"],
        }
        with pytest.raises(BadMessage, match="there is no schema 2147483647"):
            events.event(pack(">BI", 0, 2**31 - 1) + b"body")

"""`penstock produce --avro-file`."""

import io
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import fastavro
import pytest

from penstock.topics.consume import AVRO_CODECS
from schemas.envelope import PREFIX_SIZE, Encoder
from schemas.event_schemas import LOG_LINE, built_in
from schemas.parsing import parse
from tests.penstock.running import running
from tests.penstock.topics.avro_files.event_topic import EventTopic
from tests.penstock.topics.avro_files.made import made
from tests.schemas.events import EVENTS, header

VISIT = {
    "type": "record",
    "name": "shop.Visit",
    "fields": [{"name": "url", "type": "string"}],
}
# As Spark writes every column.
SPARKS = {
    "type": "record",
    "name": "Visit",
    "fields": [{"name": "url", "type": ["null", "string"]}],
}
VISITS = [{"url": f"/{number}" * 20} for number in range(3000)]
OF_FASTAVRO = [codec for codec in AVRO_CODECS if codec != "zstandard"]


def pieces(codec: str = "null") -> list[bytes]:
    """A file's header, and its blocks."""
    schema = parse(json.dumps(VISIT))
    encode = Encoder(schema, 1).encode
    return made(schema, [encode(each)[PREFIX_SIZE:] for each in VISITS], codec)


@pytest.mark.parametrize("codec", OF_FASTAVRO)
def test_a_file_becomes_events(topic: EventTopic, tmp_path: Path, codec: str) -> None:
    path = tmp_path / "visits.avro"
    with path.open("wb") as file:
        fastavro.writer(file, VISIT, VISITS, codec)
    ended = topic.produce("--avro-file", str(path), "--json", "--codec", "zstd")
    found = topic.client.version(topic.subject)
    assert ended.returncode == 0
    said = f"penstock: registered {topic.subject}: version 1, id {found.id}\n"
    assert ended.stderr == said
    document = json.loads(ended.stdout)
    assert document == {
        "topic": topic.name,
        "messages": 3000,
        "partitions": {"0": {"first": 0, "last": 2999}},
        "left_out": 0,
        "schema": {"subject": topic.subject, "version": 1, "id": found.id},
    }
    assert topic.events() == VISITS
    again = topic.produce("--avro-file", str(path))
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert topic.events() == VISITS * 2


@pytest.mark.parametrize("codec", AVRO_CODECS)
def test_there_and_back(topic: EventTopic, tmp_path: Path, codec: str) -> None:
    first, second = tmp_path / "first.avro", tmp_path / "second.avro"
    first.write_bytes(b"".join(pieces(codec)))
    assert topic.produce("--avro-file", str(first)).returncode == 0
    ended = topic.consume("--to-end", "--avro-file", str(second), "--codec", codec)
    assert ended.returncode == 0
    # All but the marker, which is another one.
    marker, other = first.read_bytes()[-16:], second.read_bytes()[-16:]
    assert second.read_bytes() == first.read_bytes().replace(marker, other)


def test_an_event_keeps_its_time(topic: EventTopic, tmp_path: Path) -> None:
    path = tmp_path / "lines.avro"
    schema = built_in(LOG_LINE)
    events = [EVENTS["LogLine"] | {"header": header(time=time)} for time in (5, 0, 1e12, -7)]
    for each in events:
        each["header"]["time"] = int(each["header"]["time"])
    encode = Encoder(schema, 1).encode
    path.write_bytes(b"".join(made(schema, [encode(each)[PREFIX_SIZE:] for each in events])))
    before = time.time_ns() // 1_000_000
    assert topic.produce("--avro-file", str(path)).returncode == 0
    documents = topic.documents()
    assert [each["event"] for each in documents] == events
    *times, last = [each["timestamp"] for each in documents]
    assert times == [5, 0, 10**12]
    assert last >= before  # before 1970 there is none


def test_a_schema_that_the_topic_has_is_found(topic: EventTopic, tmp_path: Path) -> None:
    path = tmp_path / "visits.avro"
    path.write_bytes(b"".join(pieces()))
    topic.register(VISIT)
    newer = {**VISIT, "fields": [*VISIT["fields"], {"name": "n", "type": "int", "default": 0}]}
    topic.register(newer)
    ended = topic.produce("--avro-file", str(path), "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["schema"]["version"] == 1
    assert topic.client.versions(topic.subject) == [1, 2]


def test_a_schema_that_may_not_follow_is_refused(topic: EventTopic, tmp_path: Path) -> None:
    path = tmp_path / "visits.avro"
    path.write_bytes(b"".join(pieces()))
    topic.register({**VISIT, "fields": [{"name": "address", "type": "string"}]})
    ended = topic.produce("--avro-file", str(path))
    assert ended.returncode == 1
    assert ended.stderr.startswith(
        f"penstock: the schema of {path} cannot be registered as {topic.subject}: field `url` of "
        "shop.Visit (at /fields/0): is not in version 1 and has no default"
    )
    assert ended.stderr.endswith(
        "; with --schema-version latest its values are written by the schema that the topic has\n"
    )
    assert len(ended.stderr.splitlines()) == 1
    assert topic.documents() == []


def test_values_are_brought_into_the_schema_that_was_asked_for(
    topic: EventTopic, tmp_path: Path
) -> None:
    path = tmp_path / "visits.avro"
    with path.open("wb") as file:
        fastavro.writer(file, SPARKS, [{"url": "/1"}, {"url": None}, {"url": "/3"}])
    schema_id = topic.register(VISIT)
    ended = topic.produce("--avro-file", str(path), "--schema-version", "latest", "--json")
    assert ended.returncode == 1
    first, last = ended.stderr.splitlines()
    assert first.startswith("penstock: value 2: it cannot be read as the schema that is wanted: ")
    assert last == f"penstock: 1 values of {path} were not sent, 2 were"
    document = json.loads(ended.stdout)
    assert (document["messages"], document["left_out"]) == (2, 1)
    assert document["schema"] == {"subject": topic.subject, "version": 1, "id": schema_id}
    assert topic.events() == [{"url": "/1"}, {"url": "/3"}]


@pytest.mark.parametrize("damage", ["cut", "marker", "content"])
def test_what_comes_before_damage_is_sent(topic: EventTopic, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "visits.avro"
    top, first, second, *_ = pieces()
    data = {
        "cut": top + first + second[:-1],
        "marker": top + first + second[:-1] + bytes([second[-1] ^ 1]),
        "content": top + first + second[:6] + b"\xff" * 10 + second[16:],
    }[damage]
    path.write_bytes(data)
    whole = path.with_name("whole.avro")
    whole.write_bytes(top + first)
    sent = sum(1 for _ in fastavro.reader(io.BytesIO(whole.read_bytes())))
    ended = topic.produce("--avro-file", str(path), "--json")
    assert ended.returncode == 1
    registered, said = ended.stderr.splitlines()
    assert registered.startswith("penstock: registered")
    assert said.startswith(f"penstock: {path}: block 2, at byte {len(top + first)}: ")
    assert said.endswith(f"; {sent:,} values before it were sent")
    assert json.loads(ended.stdout)["messages"] == sent
    assert topic.events() == VISITS[:sent]


def test_what_is_no_container_file(topic: EventTopic, tmp_path: Path) -> None:
    path = tmp_path / "visits.avro"
    path.write_text('{"url": "/"}\n')
    ended = topic.produce("--avro-file", str(path))
    assert ended.returncode == 1
    said = f"penstock: {path}: it begins with b'{{\"ur': it is no Avro container file\n"
    assert ended.stderr == said
    assert topic.client.latest(topic.subject) is None


def test_what_does_not_go_together(topic: EventTopic, tmp_path: Path) -> None:
    path = tmp_path / "visits.avro"
    path.write_bytes(b"".join(pieces()))
    for arguments in (
        ["--avro-file", str(path), "--file", str(path)],
        ["--avro-file", str(path), "--key-separator", ":"],
        ["--avro-file", str(tmp_path / "none")],
        ["--schema-version", "1"],
    ):
        assert topic.produce(*arguments).returncode == 2


def test_from_one_topic_into_another(topic: EventTopic, at: Any, new_topic: str) -> None:
    """While both go on."""
    other = EventTopic(f"{new_topic}-copy", at, topic.client, topic.registry)
    at.output("topics", "create", other.name)
    topic.write(VISIT, *VISITS[:5])
    registry = ["-r", topic.registry]
    reading = ["consume", topic.name, "--from", "beginning", "--avro-file", "-", *registry]
    writing = ["produce", other.name, "--avro-file", "-", *registry]
    with (
        running(at.arguments(*reading)) as reader,
        subprocess.Popen(at.arguments(*writing), stdin=reader.stdout) as writer,
    ):
        assert reader.stdout is not None
        reader.stdout.close()
        deadline = time.monotonic() + 60
        while len(other.documents()) < 5 and time.monotonic() < deadline:
            time.sleep(0.1)
        topic.write(VISIT, *VISITS[5:10])
        while len(other.documents()) < 10 and time.monotonic() < deadline:
            time.sleep(0.1)
        reader.terminate()
        assert reader.wait(60) == 143
        assert writer.wait(60) == 0
    assert other.events() == VISITS[:10]

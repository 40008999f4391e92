"""`penstock consume --avro-file` and `penstock produce --avro-file`."""

import io
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from penstock.connections.registry import PATIENCE_SECONDS
from penstock.topics.consume import AVRO_CODECS
from schemas.envelope import Encoder, prefix
from schemas.event_schemas import LOG_LINE, built_in
from schemas.parsing import parse
from schemas.registry_client import RegistryClient
from schemas.remote.answers import Reference
from tests.penstock.running import At, penstock_bytes
from tests.penstock.terminals import on_a_terminal
from tests.penstock.topics.avro_files.container_files import (
    WITHOUT_FASTAVRO,
    apache_reads,
    bodies_of,
    encoded,
    made,
    opened,
)
from tests.penstock.topics.avro_files.event_topic import EventTopic, into
from tests.schemas.answering import answering, refuses, says, sends
from tests.schemas.events import EVENTS, header

USER = {"name": "user", "type": ["null", "string"], "default": None}
VISITS = [{"url": f"/{number}" * 20} for number in range(3000)]


def visit(*more: Any) -> dict[str, Any]:
    """A schema, and what later versions of it have."""
    fields = [{"name": "url", "type": "string"}, *more]
    return {"type": "record", "name": "Visit", "namespace": "shop", "fields": fields}


# As Spark writes every column.
SPARKS = {"type": "record", "name": "Visit", "fields": [{"name": "url", "type": USER["type"]}]}


@pytest.fixture
def topic(at: At, running_registry: RegistryProcess, new_topic: str) -> Iterator[EventTopic]:
    at.output("topics", "create", new_topic)
    with RegistryClient(running_registry.url) as client:
        yield EventTopic(new_topic, at, client, running_registry.url)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "visits.avro"


def only(path: Path) -> list[str]:
    """The names beside it: nothing is left there."""
    return sorted(each.name for each in path.parent.iterdir())


@pytest.mark.parametrize("codec", [None, *AVRO_CODECS])
def test_events_become_a_file(topic: EventTopic, path: Path, codec: str | None) -> None:
    schema_id = topic.write(visit(), *VISITS)
    ended = topic.consume(*into(path), *(["--codec", codec] if codec else []), "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout) == {
        "topic": topic.name,
        "file": str(path),
        "messages": 3000,
        "left_out": 0,
        "schema": {"subject": topic.subject, "version": 1, "id": schema_id},
        "partitions": {"0": {"first": 0, "last": 2999}},
    }
    assert apache_reads(path) == VISITS
    assert (codec or "deflate").encode() in path.read_bytes()[:40]
    assert only(path) == ["visits.avro"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    before = os.umask(0)
    os.umask(before)
    return before


def test_older_and_newer_versions_become_the_latest(topic: EventTopic, path: Path) -> None:
    topic.write(visit(), {"url": "/old"})
    topic.write(visit(USER), {"url": "/new", "user": "ada"})
    assert topic.consume(*into(path)).returncode == 0
    assert apache_reads(path) == [{"url": "/old", "user": None}, {"url": "/new", "user": "ada"}]
    ended = topic.consume(*into(path), "--schema-version", "1", "--overwrite")
    assert ended.returncode == 0
    assert apache_reads(path) == [{"url": "/old"}, {"url": "/new"}]
    ended = topic.consume(*into(path.with_name("none")), "--schema-version", "9")
    assert (ended.returncode, ended.stderr) == (1, "penstock: Version 9 not found.\n")
    assert only(path) == ["visits.avro"]


def test_what_cannot_be_in_it_is_named_and_counted(topic: EventTopic, path: Path) -> None:
    topic.client.set_level(topic.subject, "NONE")
    empty = topic.write({"type": "record", "name": "shop.Visit", "fields": []}, {})
    latest = topic.write(visit(), {"url": "/"})
    topic.send(b"no event", None, prefix(2**31 - 1) + b"x", prefix(latest) + b"\2\xff")
    topic.write(visit(), {"url": "/last"})
    ended = topic.consume(*into(path))
    assert ended.returncode == 1
    at = f"penstock: {topic.name}-0, offset"
    first, *said, last = ended.stderr.splitlines()
    unread = "the value cannot be converted to the requested schema: "
    assert first.startswith(f"{at} 0: with schema {empty}: {unread}")
    assert said == [
        f"{at} 2: the message begins with byte 110, not with 0: it names no schema",
        f"{at} 3: the message has no value",
        f"{at} 4: there is no schema {2**31 - 1}",
        f"{at} 5: with schema {latest}: byte 5: a string is not UTF-8: "
        "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
    ]
    assert last == f"penstock: 5 of 7 messages of {topic.name} are not in {path}"
    assert apache_reads(path) == [{"url": "/"}, {"url": "/last"}]


def test_of_many_not_all_are_named(topic: EventTopic, path: Path) -> None:
    topic.register(visit())
    topic.send(*[b"no event"] * 150)
    ended = topic.consume(*into(path))
    said = ended.stderr.splitlines()
    assert (ended.returncode, len(said)) == (1, 102)
    assert said[-2:] == [
        "penstock: further skipped values are counted but not listed",
        f"penstock: 150 of 150 messages of {topic.name} are not in {path}",
    ]


def test_a_file_that_is_there_is_left_alone(topic: EventTopic, path: Path) -> None:
    topic.write(visit(), {"url": "/"})
    path.write_text("mine")
    ended = topic.consume(*into(path))
    said = f"penstock: {path} exists; --overwrite replaces it\n"
    assert (ended.returncode, ended.stderr) == (1, said)
    assert path.read_text() == "mine"
    link = path.with_name("link.avro")
    link.symlink_to(path)
    assert topic.consume(*into(link), "--overwrite").returncode == 0
    assert link.is_symlink()
    assert apache_reads(path) == [{"url": "/"}]


def test_a_place_that_is_none(topic: EventTopic, tmp_path: Path) -> None:
    topic.write(visit(), {"url": "/"})
    os.mkfifo(tmp_path / "pipe")
    for where, code, why in (
        (".", 2, "is a directory"),
        ("pipe", 1, "is not a file"),
        ("no/such/folder/visits.avro", 1, "No such file or directory"),
    ):
        ended = topic.consume(*into(tmp_path / where), "--overwrite")
        assert ended.returncode == code
        (line,) = ended.stderr.splitlines()
        assert str(tmp_path) in line
        assert why in line


def test_without_subject_or_topic_there_is_no_file(topic: EventTopic, path: Path) -> None:
    ended = topic.consume(*into(path))
    said = f"penstock: Subject '{topic.subject}' not found.\n"
    assert (ended.returncode, ended.stderr) == (1, said)
    ended = topic.at.run("consume", "no-such-topic", *into(path), "-r", topic.registry)
    assert (ended.returncode, ended.stderr) == (1, "penstock: no topic no-such-topic\n")
    assert only(path) == []


def test_on_stdout_and_on_a_terminal(topic: EventTopic, path: Path) -> None:
    topic.write(visit(), *VISITS)
    to_stdout = topic.consuming("--to-end", "--avro-file", "-")
    ended = penstock_bytes(*topic.at.arguments(*to_stdout))
    assert (ended.returncode, len(bodies_of(ended.stdout)), ended.stderr) == (0, 3000, b"")
    said = on_a_terminal(*topic.at.arguments(*topic.consuming(*into(path))))
    assert said.startswith(f"3,000 events of {topic.name} in {path}, in ")
    on_screen = topic.at.arguments("consume", topic.name, "--avro-file", "-")
    assert "redirect stdout" in on_a_terminal(*on_screen, code=2)


def wait_for_values(path: Path, count: int) -> None:
    """Of a file that grows; it is whole whenever it is looked at."""

    def are_there() -> bool:
        return path.exists() and len(bodies_of(path.read_bytes())) >= count

    wait_until(are_there, what=f"{path} has {count} values")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_goes_on_grows_and_is_whole(
    topic: EventTopic, path: Path, number: signal.Signals
) -> None:
    topic.register(visit())
    with topic.consumes("--avro-file", str(path)) as process:
        wait_for_values(path, 0)
        for count in (10, 20):
            topic.write(visit(), *VISITS[count - 10 : count])
            wait_for_values(path, count)
        code = -number if number == signal.SIGKILL else 128 + number
        assert process.end(number) == code
        assert process.stderr.read() == b""
    assert apache_reads(path) == VISITS[:20]
    assert only(path) == ["visits.avro"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_to_be_complete_is_not_there_when_it_is_not(
    topic: EventTopic, path: Path, number: signal.Signals
) -> None:
    path.write_text("of yesterday")
    topic.write(visit(), *VISITS)
    with topic.consumes("--count", "3001", "--avro-file", str(path), "--overwrite") as process:
        wait_until(lambda: len(only(path)) == 2, what="a file is begun")
        assert process.end(number) == 128 + number
        said = f"penstock: {path} was not written, as it was not complete\n"
        assert process.stderr.read().decode() == said
    assert path.read_text() == "of yesterday"
    assert only(path) == ["visits.avro"]


def test_references_are_written_out(topic: EventTopic, path: Path) -> None:
    name = f"shop.Address{os.getpid()}"
    address = {"type": "record", "name": name, "fields": [{"name": "zip", "type": "string"}]}
    topic.client.register(name, json.dumps(address))
    reference = Reference(name, name, topic.client.version(name).version)
    text = json.dumps(visit({"name": "to", "type": name}))
    schema_id = topic.client.register(topic.subject, text, [reference])
    whole = parse(text, [json.dumps(address)])
    topic.send(Encoder(whole, schema_id).encode({"url": "/", "to": {"zip": "1"}}))
    assert topic.consume(*into(path)).returncode == 0
    assert apache_reads(path) == [{"url": "/", "to": {"zip": "1"}}]
    assert opened(path.read_bytes()).schema.references == ()


def as_version(topic: EventTopic, schema_id: int) -> dict[str, Any]:
    text = json.dumps(visit())
    return {"subject": topic.subject, "version": 1, "id": schema_id, "schema": text}


def test_who_waits_for_a_schema_can_be_called_away(topic: EventTopic, path: Path) -> None:
    latest = topic.write(visit(), {"url": "/"})
    version = as_version(topic, latest)
    never = sends(b"", every=300)
    with (
        answering(says(version), says({"schema": version["schema"]}), never) as registry,
        topic.consumes("--avro-file", str(path), registry=registry.url) as process,
    ):
        wait_for_values(path, 1)
        topic.send(prefix(latest + 1) + b"\2/")
        wait_until(lambda: len(registry.paths) == 3, what="a schema is asked for")
        asked = time.monotonic()
        assert process.end(signal.SIGINT) == 130
        assert time.monotonic() - asked < PATIENCE_SECONDS
    assert apache_reads(path) == [{"url": "/"}]


def test_what_had_come_before_an_error_is_in_what_goes_on(topic: EventTopic, path: Path) -> None:
    latest = topic.write(visit(), {"url": "/"})
    topic.send(prefix(latest + 1) + b"\2/")
    version = as_version(topic, latest)
    for end, kept in ((["--to-end"], []), ([], ["visits.avro"])):
        schema = says({"schema": version["schema"]})
        with answering(says(version), schema, refuses(403, 40301)) as registry:
            ended = topic.consume(*end, "--avro-file", str(path), registry=registry.url)
        assert (ended.returncode, ended.stderr) == (1, "penstock: no\n")
        assert only(path) == kept
    assert apache_reads(path) == [{"url": "/"}]


def pieces(codec: str = "null") -> list[bytes]:
    """A file's header, and its blocks."""
    schema = parse(json.dumps(visit()))
    return made(schema, encoded(schema, *VISITS), codec)


def write_visits(path: Path, codec: str = "null") -> None:
    path.write_bytes(b"".join(pieces(codec)))


@pytest.mark.parametrize("codec", [each for each in AVRO_CODECS if each not in WITHOUT_FASTAVRO])
def test_a_file_becomes_events(topic: EventTopic, path: Path, codec: str) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, visit(), VISITS, codec)
    ended = topic.produce("--avro-file", str(path), "--json", "--codec", "zstd")
    found = topic.client.version(topic.subject)
    said = f"penstock: registered {topic.subject}: version 1, id {found.id}\n"
    assert (ended.returncode, ended.stderr) == (0, said)
    assert json.loads(ended.stdout) == {
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


def test_an_event_keeps_its_time(topic: EventTopic, path: Path) -> None:
    schema = built_in(LOG_LINE)
    headers = [header(time=time) for time in (5, 0, 10**12, -7)]
    events = [EVENTS["LogLine"] | {"header": each} for each in headers]
    path.write_bytes(b"".join(made(schema, encoded(schema, *events))))
    before = time.time_ns() // 1_000_000
    assert topic.produce("--avro-file", str(path)).returncode == 0
    documents = topic.documents()
    assert [each["event"] for each in documents] == events
    *times, last = [each["timestamp"] for each in documents]
    assert times == [5, 0, 10**12]
    assert last >= before  # before 1970 there is none


def test_a_schema_that_the_topic_has_is_found(topic: EventTopic, path: Path) -> None:
    write_visits(path)
    topic.register(visit())
    topic.register(visit({"name": "n", "type": "int", "default": 0}))
    ended = topic.produce("--avro-file", str(path), "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["schema"]["version"] == 1
    assert topic.client.versions(topic.subject) == [1, 2]


def test_a_schema_that_may_not_follow_is_refused(topic: EventTopic, path: Path) -> None:
    write_visits(path)
    topic.register({**visit(), "fields": [{"name": "address", "type": "string"}]})
    ended = topic.produce("--avro-file", str(path))
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith(
        f"penstock: the schema of {path} cannot be registered as {topic.subject}: field `url` of "
        "shop.Visit (at /fields/0): is not in version 1 and has no default"
    )
    advice = "with --schema-version latest its values are written with the topic's present schema"
    assert line.endswith(f"; {advice}")
    assert topic.documents() == []


def test_values_are_brought_into_the_schema_that_was_asked_for(
    topic: EventTopic, path: Path
) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, SPARKS, [{"url": "/1"}, {"url": None}, {"url": "/3"}])
    schema_id = topic.register(visit())
    ended = topic.produce("--avro-file", str(path), "--schema-version", "latest", "--json")
    assert ended.returncode == 1
    first, last = ended.stderr.splitlines()
    assert first.startswith("penstock: value 2: the value cannot be converted to the requested")
    assert last == f"penstock: 1 values of {path} were not sent, 2 were"
    document = json.loads(ended.stdout)
    assert (document["messages"], document["left_out"]) == (2, 1)
    assert document["schema"] == {"subject": topic.subject, "version": 1, "id": schema_id}
    assert topic.events() == [{"url": "/1"}, {"url": "/3"}]


@pytest.mark.parametrize("damage", ["cut", "marker", "content"])
def test_what_comes_before_damage_is_sent(topic: EventTopic, path: Path, damage: str) -> None:
    top, first, second, *_ = pieces()
    damaged = {
        "cut": second[:-1],
        "marker": second[:-1] + bytes([second[-1] ^ 1]),
        "content": second[:6] + b"\xff" * 10 + second[16:],
    }
    path.write_bytes(top + first + damaged[damage])
    sent = sum(1 for _ in fastavro.reader(io.BytesIO(top + first)))
    ended = topic.produce("--avro-file", str(path), "--json")
    assert ended.returncode == 1
    registered, said = ended.stderr.splitlines()
    assert registered.startswith("penstock: registered")
    assert said.startswith(f"penstock: {path}: block 2, at byte {len(top + first)}: ")
    assert said.endswith(f"; {sent:,} values before it were sent")
    assert json.loads(ended.stdout)["messages"] == sent
    assert topic.events() == VISITS[:sent]


def test_what_a_producer_cannot_send(topic: EventTopic, path: Path) -> None:
    path.write_text('{"url": "/"}\n')
    ended = topic.produce("--avro-file", str(path))
    said = f"penstock: {path}: not an Avro container file: it begins with b'{{\"ur'\n"
    assert (ended.returncode, ended.stderr) == (1, said)
    assert topic.client.latest(topic.subject) is None


def test_from_one_topic_into_another(topic: EventTopic, at: At, new_topic: str) -> None:
    """While both commands run."""
    other = EventTopic(f"{new_topic}-copy", at, topic.client, topic.registry)
    at.output("topics", "create", other.name)
    topic.register(visit())  # without a schema the first command ends at once
    writing = ["produce", other.name, "--avro-file", "-", "-r", topic.registry]
    with (
        topic.consumes("--avro-file", "-") as reader,
        at.running(*writing, stdin=reader.stdout.fileno()) as writer,
    ):
        reader.stdout.close()
        for count in (5, 10):
            topic.write(visit(), *VISITS[count - 5 : count])
            wait_until(lambda: len(other.documents()) == count, what="all is there")  # noqa: B023
        assert reader.end(signal.SIGTERM) == 143
        assert writer.wait() == 0
    assert other.events() == VISITS[:10]

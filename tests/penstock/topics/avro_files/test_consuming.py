"""`penstock consume --avro-file`."""

import json
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.connections.registry import PATIENCE_SECONDS
from penstock.topics.consume import AVRO_CODECS
from schemas.envelope import Encoder, prefix
from schemas.parsing import parse
from schemas.remote.answers import Reference
from tests.penstock.running import running
from tests.penstock.terminals import on_a_terminal
from tests.penstock.topics.avro_files.event_topic import EventTopic
from tests.penstock.topics.avro_files.made import apache_reads, bodies_of, opened
from tests.schemas.answering import answering, refuses, says, sends


def visit(*more: Any) -> dict[str, Any]:
    """A schema, and what later versions of it have."""
    fields = [{"name": "url", "type": "string"}, *more]
    return {"type": "record", "name": "Visit", "namespace": "shop", "fields": fields}


USER = {"name": "user", "type": ["null", "string"], "default": None}
VISITS = [{"url": f"/{number}"} for number in range(3000)]


def into(path: Path) -> list[str]:
    return ["--to-end", "--avro-file", str(path)]


def only(path: Path) -> list[str]:
    """The names beside it: nothing is left there."""
    return sorted(each.name for each in path.parent.iterdir())


@pytest.mark.parametrize("codec", [None, *AVRO_CODECS])
def test_events_become_a_file(topic: EventTopic, tmp_path: Path, codec: str | None) -> None:
    path = tmp_path / "visits.avro"
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


def test_older_and_newer_versions_become_the_latest(topic: EventTopic, tmp_path: Path) -> None:
    path = tmp_path / "visits.avro"
    topic.write(visit(), {"url": "/old"})
    topic.write(visit(USER), {"url": "/new", "user": "ada"})
    assert topic.consume(*into(path)).returncode == 0
    assert apache_reads(path) == [{"url": "/old", "user": None}, {"url": "/new", "user": "ada"}]
    ended = topic.consume(*into(path), "--schema-version", "1", "--overwrite")
    assert ended.returncode == 0
    assert apache_reads(path) == [{"url": "/old"}, {"url": "/new"}]
    ended = topic.consume(*into(tmp_path / "none"), "--schema-version", "9")
    assert (ended.returncode, ended.stderr) == (1, "penstock: Version 9 not found.\n")
    assert only(path) == ["visits.avro"]


def test_what_cannot_be_in_it_is_named_and_counted(topic: EventTopic, tmp_path: Path) -> None:
    path = tmp_path / "visits.avro"
    topic.client.set_level(topic.subject, "NONE")
    empty = topic.write({"type": "record", "name": "shop.Visit", "fields": []}, {})
    latest = topic.write(visit(), {"url": "/"})
    bad_text = prefix(latest) + b"\2\xff"
    topic.send(b"no event", None, prefix(2**31 - 1) + b"x", bad_text)
    topic.write(visit(), {"url": "/last"})
    ended = topic.consume(*into(path))
    assert ended.returncode == 1
    first, *said, last = ended.stderr.splitlines()
    assert first.startswith(
        f"penstock: {topic.name}-0, offset 0: with schema {empty}: it cannot be read as the "
        "schema that is wanted: "
    )
    assert said == [
        f"penstock: {topic.name}-0, offset 2: it begins with byte 110 and not with 0: it names no "
        "schema",
        f"penstock: {topic.name}-0, offset 3: it has no value",
        f"penstock: {topic.name}-0, offset 4: there is no schema {2**31 - 1}",
        f"penstock: {topic.name}-0, offset 5: with schema {latest}: byte 5: a string is no UTF-8: "
        "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
    ]
    assert last == f"penstock: 5 of 7 messages of {topic.name} are not in {path}"
    assert apache_reads(path) == [{"url": "/"}, {"url": "/last"}]


def test_of_many_not_all_are_named(topic: EventTopic, tmp_path: Path) -> None:
    topic.register(visit())
    topic.send(*[b"no event"] * 150)
    ended = topic.consume(*into(tmp_path / "visits.avro"))
    said = ended.stderr.splitlines()
    assert (ended.returncode, len(said)) == (1, 102)
    assert said[-2:] == [
        "penstock: there are more, which are only counted",
        f"penstock: 150 of 150 messages of {topic.name} are not in {tmp_path / 'visits.avro'}",
    ]


def test_a_file_that_is_there_is_left_alone(topic: EventTopic, tmp_path: Path) -> None:
    path = tmp_path / "visits.avro"
    topic.write(visit(), {"url": "/"})
    path.write_text("mine")
    ended = topic.consume(*into(path))
    said = f"penstock: {path} is there already; --overwrite replaces it\n"
    assert (ended.returncode, ended.stderr) == (1, said)
    assert path.read_text() == "mine"
    link = tmp_path / "link.avro"
    link.symlink_to(path)
    assert topic.consume(*into(link), "--overwrite").returncode == 0
    assert link.is_symlink()
    assert apache_reads(path) == [{"url": "/"}]


@pytest.mark.parametrize(
    ("where", "code", "why"),
    [
        (".", 2, "is a directory"),
        ("pipe", 1, "is no file"),
        ("no/such/folder/visits.avro", 1, "No such file or directory"),
    ],
)
def test_a_place_that_is_none(
    topic: EventTopic, tmp_path: Path, where: str, code: int, why: str
) -> None:
    topic.write(visit(), {"url": "/"})
    os.mkfifo(tmp_path / "pipe")
    ended = topic.consume(*into(tmp_path / where), "--overwrite")
    assert ended.returncode == code
    (line,) = ended.stderr.splitlines()
    assert str(tmp_path) in line
    assert why in line


def test_without_subject_or_topic_there_is_no_file(topic: EventTopic, tmp_path: Path) -> None:
    path = tmp_path / "visits.avro"
    ended = topic.consume(*into(path))
    said = f"penstock: Subject '{topic.subject}' not found.\n"
    assert (ended.returncode, ended.stderr) == (1, said)
    ended = topic.at.run("consume", "no-such-topic", *into(path), "-r", topic.registry)
    assert (ended.returncode, ended.stderr) == (1, "penstock: no topic no-such-topic\n")
    assert only(path) == []


def test_what_does_not_go_together(topic: EventTopic, tmp_path: Path) -> None:
    path = str(tmp_path / "visits.avro")
    for arguments in (
        ["--avro-file", path, "--events"],
        ["--avro-file", path, "--key-separator", ":"],
        ["--avro-file", "-", "--json"],
        ["--codec", "null"],
        ["--overwrite"],
        ["--schema-version", "1"],
    ):
        assert topic.consume(*arguments).returncode == 2
    command = shlex.join(topic.at.arguments("consume", topic.name, "--avro-file", "-"))
    said = on_a_terminal(["sh", "-c", f"{command}; test $? = 2"])
    assert "send them to a file or a program" in said


def test_on_stdout(topic: EventTopic) -> None:
    topic.write(visit(), *VISITS)
    arguments = ["--from", "beginning", "--to-end", "--avro-file", "-", "-r", topic.registry]
    ended = subprocess.run(
        topic.at.arguments("consume", topic.name, *arguments), capture_output=True, check=True
    )
    assert (len(bodies_of(ended.stdout)), ended.stderr) == (3000, b"")


def test_on_a_terminal_it_ends_with_a_summary(topic: EventTopic, tmp_path: Path) -> None:
    path = tmp_path / "visits.avro"
    topic.write(visit(), *VISITS)
    arguments = ["--from", "beginning", *into(path), "-r", topic.registry]
    said = on_a_terminal(topic.at.arguments("consume", topic.name, *arguments))
    assert said.startswith(f"3,000 events of {topic.name} in {path}, in ")


def until(path: Path, values: int) -> list[bytes]:
    """Waits for a file that grows; it is whole whenever it is looked at."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and len(found := bodies_of(path.read_bytes())) >= values:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{path} has not {values} values")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_goes_on_grows_and_is_whole(
    topic: EventTopic, tmp_path: Path, number: signal.Signals
) -> None:
    path = tmp_path / "visits.avro"
    topic.register(visit())
    arguments = ["--from", "beginning", "--avro-file", str(path), "-r", topic.registry]
    with running(topic.at.arguments("consume", topic.name, *arguments)) as process:
        until(path, 0)
        topic.write(visit(), *VISITS[:10])
        until(path, 10)
        topic.write(visit(), *VISITS[10:20])
        until(path, 20)
        process.send_signal(number)
        code = process.wait(60)
        assert code == (-number if number == signal.SIGKILL else 128 + number)
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert apache_reads(path) == VISITS[:20]
    assert only(path) == ["visits.avro"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_to_be_complete_is_not_there_when_it_is_not(
    topic: EventTopic, tmp_path: Path, number: signal.Signals
) -> None:
    path = tmp_path / "visits.avro"
    path.write_text("of yesterday")
    topic.write(visit(), *VISITS)
    arguments = ["--count", "3001", "--avro-file", str(path), "--overwrite", "-r", topic.registry]
    command = topic.at.arguments("consume", topic.name, "--from", "beginning", *arguments)
    with running(command) as process:
        deadline = time.monotonic() + 60
        while len(only(path)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        assert process.stderr is not None
        said = f"penstock: {path} was not written: it was not complete yet\n"
        assert process.stderr.read().decode() == said
    assert path.read_text() == "of yesterday"
    assert only(path) == ["visits.avro"]


def test_references_are_written_out(topic: EventTopic, tmp_path: Path) -> None:
    path = tmp_path / "visits.avro"
    name = f"shop.Address{os.getpid()}"
    address = {"type": "record", "name": name, "fields": [{"name": "zip", "type": "string"}]}
    topic.client.register(name, json.dumps(address))
    reference = topic.client.version(name)
    schema = visit({"name": "to", "type": name})
    schema_id = topic.client.register(
        topic.subject, json.dumps(schema), [Reference(name, name, reference.version)]
    )
    whole = parse(json.dumps(schema), [json.dumps(address)])
    topic.send(Encoder(whole, schema_id).encode({"url": "/", "to": {"zip": "1"}}))
    assert topic.consume(*into(path)).returncode == 0
    assert apache_reads(path) == [{"url": "/", "to": {"zip": "1"}}]
    assert opened(path.read_bytes()).schema.references == ()


def test_who_waits_for_a_schema_can_be_called_away(topic: EventTopic, tmp_path: Path) -> None:
    path = tmp_path / "visits.avro"
    latest = topic.write(visit(), {"url": "/"})
    text = json.dumps(visit())
    version = {"subject": topic.subject, "version": 1, "id": latest, "schema": text}
    never = sends(b"", every=300)
    with answering(says(version), says({"schema": text}), never) as registry:
        arguments = ["--from", "beginning", "--avro-file", str(path), "-r", registry.url]
        with running(topic.at.arguments("consume", topic.name, *arguments)) as process:
            until(path, 1)
            topic.send(prefix(latest + 1) + b"\2/")
            deadline = time.monotonic() + 60
            while len(registry.paths) < 3 and time.monotonic() < deadline:
                time.sleep(0.05)
            asked = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            assert time.monotonic() - asked < PATIENCE_SECONDS
    assert apache_reads(path) == [{"url": "/"}]


def test_what_had_come_before_an_error_is_in_what_goes_on(
    topic: EventTopic, tmp_path: Path
) -> None:
    latest = topic.write(visit(), {"url": "/"})
    topic.send(prefix(latest + 1) + b"\2/")
    text = json.dumps(visit())
    version = {"subject": topic.subject, "version": 1, "id": latest, "schema": text}
    for end, kept in ((["--to-end"], []), ([], ["visits.avro"])):
        path = tmp_path / "visits.avro"
        with answering(says(version), says({"schema": text}), refuses(403, 40301)) as registry:
            arguments = ["--from", "beginning", *end, "--avro-file", str(path), "-r", registry.url]
            ended = topic.at.run("consume", topic.name, *arguments)
        assert (ended.returncode, ended.stderr) == (1, "penstock: no\n")
        assert only(path) == kept
    assert apache_reads(path) == [{"url": "/"}]

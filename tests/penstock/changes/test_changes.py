"""`penstock changes`: which entries it shows, of which files, and how."""

import json
import os
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from ground.administration.entries import Change, Kind, Program, Who, read_entry
from ground.administration.log import rotated
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from penstock.changes.command import command
from penstock.changes.filters import since_millis
from schemas.envelope import Encoder
from schemas.parsing import parse
from schemas.registry_client import RegistryClient
from tests.penstock.running import NOBODY, At, fresh_penstock, penstock
from tests.schemas.events import header

ALICE, BOB = Who("alice", "10.0.0.7"), Who("bob", "10.0.0.8", client_id="\x1b[2J")
DOCS = Path(__file__).resolve().parents[3] / "docs" / "administration.md"


def line(minute: int, who: Who, action: str, kind: Kind, name: str, **more: Any) -> bytes:
    time = datetime(2026, 11, 22, 9, minute, tzinfo=UTC)
    times = more.pop("times", 1)
    change = Change(action=action, kind=kind, name=name, **more)
    return Program("dc1", "broker 1").line(time, who, change, times)


BEFORE = {"retention.ms": "86400000", "max.message.bytes": "1000"}
AFTER = {"retention.ms": "3600000"}
REFUSED = {"result": "TOPIC_AUTHORIZATION_FAILED", "message": "not authorized"}
RED = {"principal": "User:\x1b[31mred"}
LINES = [
    line(0, ALICE, "create", Kind.TOPIC, "page_views"),
    line(1, BOB, "alter", Kind.TOPIC_CONFIG, "page_views", before=BEFORE, after=AFTER),
    line(2, BOB, "delete", Kind.TOPIC, "orders", before={"partitions": "8"}, times=17, **REFUSED),
    line(3, ALICE, "create", Kind.ACL, "topic:page_views", after=RED),
    line(4, ALICE, "alter", Kind.QUOTA, "client-id=*,user=bob"),
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """In three files, with something else in one of them."""
    path = tmp_path / "administration.log"
    rotated(path, 2).write_bytes(b"".join(LINES[:2]))
    rotated(path, 1).write_bytes(b"no entry\n" + LINES[2] + b"\n")
    path.write_bytes(b"".join(LINES[3:]))
    return path


def changes(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def shown(log: Path, *options: str) -> list[str]:
    """The minutes of what is shown, as JSON."""
    ended = changes(str(log), "--json", *options)
    assert ended.exit_code == 0, ended.stderr
    return [json.loads(each)["time"][14:16] for each in ended.stdout.splitlines()]


def test_the_table(log: Path) -> None:
    ended = changes(str(log))
    assert ended.exit_code == 0
    assert "skipped 1 lines" in ended.stderr
    assert "\x1b" not in ended.stdout
    rows = ended.stdout.splitlines()
    assert rows[0].split() == ["time", "who", "address", "what", "name", "change", "result"]
    assert rows[1].startswith("2026-11-22 09:00:00  alice  10.0.0.7  create topic ")
    assert "retention.ms: 86400000 → 3600000, max.message.bytes: 1000 → -" in rows[2]
    assert " ".join(rows[3].split()).endswith("partitions: 8 TOPIC_AUTHORIZATION_FAILED ×17")
    assert len(rows) == 6


@pytest.mark.parametrize(
    ("options", "minutes"),
    [
        ([], ["00", "01", "02", "03", "04"]),
        (["--who", "bob"], ["01", "02"]),
        (["--who", "10.0.0.*"], ["00", "01", "02", "03", "04"]),
        (["--who", "User:bob"], []),
        (["--kind", "topic", "--kind", "acl"], ["00", "02", "03"]),
        (["--name", "page_views"], ["00", "01", "03"]),
        (["--name", "page_*", "--kind", "topic"], ["00"]),
        (["--name", "bob"], ["04"]),
        (["--refused"], ["02"]),
        (["--last", "2"], ["03", "04"]),
        (["--since", "2026-11-22T09:02:00Z", "--until", "2026-11-22T09:04:00Z"], ["02", "03"]),
    ],
)
def test_what_is_chosen(log: Path, options: list[str], minutes: list[str]) -> None:
    assert shown(log, *options) == minutes


def test_several_logs_are_one_in_the_order_of_time(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(LINES[0] + LINES[2] + LINES[4])
    second.write_bytes(LINES[1] + LINES[3])
    assert shown(first, str(second)) == ["00", "01", "02", "03", "04"]


def test_nothing_is_no_mistake(log: Path) -> None:
    ended = changes(str(log), "--who", "nobody")
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert "no changes" in ended.stderr


def test_the_log_of_the_pipeline_whose_environment_was_read(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broker").symlink_to(log.parent)
    monkeypatch.setenv("PENSTOCK_UP", str(tmp_path))
    ended = changes("--json")
    assert [json.loads(line)["time"][14:16] for line in ended.stdout.splitlines()] == [
        *("00", "01", "02", "03", "04")
    ]


@pytest.mark.not_quick("starts a process")
def test_a_log_that_the_user_may_not_read_is_named(tmp_path: Path) -> None:
    data = tmp_path / "penstock-data" / "broker"
    data.mkdir(parents=True)
    data.chmod(0o000)
    if os.geteuid() == 0:
        os.chown(data, NOBODY, NOBODY)
    ended = fresh_penstock("changes", folder=tmp_path, ordinary=True)
    data.chmod(0o700)
    said = "penstock: penstock-data/broker/administration.log: permission denied: use sudo, or "
    assert (ended.returncode, ended.stderr.startswith(said)) == (1, True), ended.stderr


def test_how_long_ago() -> None:
    now = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
    at = int(now.timestamp() * 1000)
    assert since_millis("2h", now) == at - 2 * 3_600_000
    assert since_millis("7d", now) == at - 7 * 86_400_000
    assert since_millis("today", now) == at - 34_200_000
    assert since_millis("2026-11-22T09:30:00Z", now) == at
    assert since_millis("99999w", now) == 0
    with pytest.raises(ValueError):
        since_millis("2 h", now)


def documented_schema(topic: str, folder: Path) -> str:
    """As the command of the docs writes it, for what agents ship."""
    command = re.compile(r"^penstock (schemas new .*?[^\\])$", re.MULTILINE | re.DOTALL)
    found = command.search(DOCS.read_text())
    assert found is not None
    words = shlex.split(found[1].replace("\\\n", " "))
    own = [topic if word == "administration" else word for word in words]
    made = penstock(*own, "--dir", str(folder))
    assert made.returncode == 0, made.stderr
    return (folder / f"{topic}-value.avsc").read_text()


def test_what_was_shipped_is_shown(
    at: At,
    running_broker: BrokerProcess,
    running_registry: RegistryProcess,
    new_topic: str,
    tmp_path: Path,
) -> None:
    schema = parse(documented_schema(new_topic, tmp_path))
    with RegistryClient(running_registry.url) as registry:
        schema_id = registry.register(f"{new_topic}-value", schema.text)
    at.output("topics", "create", new_topic, "--partitions", "2")
    producer = Producer({"bootstrap.servers": running_broker.bootstrap})
    encoder = Encoder(schema, schema_id)
    for number, line in enumerate(LINES):
        entry = read_entry(line)
        fields = {name: getattr(entry, name) for name in entry.__struct_fields__ if name != "time"}
        millis = 1_795_338_000_000 + number * 60_000
        event = {"header": {**header(), "time": millis}, **fields}
        producer.produce(new_topic, encoder.encode(event), partition=number % 2, timestamp=millis)
    producer.produce(new_topic, b"no event", partition=0, timestamp=1_795_338_000_000)
    producer.flush(30)

    asked = ["changes", "--topic", new_topic, "--registry", running_registry.url]
    ended = at.run(*asked)
    assert ended.returncode == 0, ended.stderr
    assert "skipped 1 lines" in ended.stderr
    shown = [line.split()[1] for line in ended.stdout.splitlines()[1:]]
    assert shown == ["09:00:00", "09:01:00", "09:02:00", "09:03:00", "09:04:00"]
    since = at.run(*asked, "--since", "2026-11-22T09:03:00Z", "--json")
    assert len(since.stdout.splitlines()) == 2

"""`penstock changes`: which entries it shows, of which files, and how."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ground.administration import Change, Kind, Program, Who
from ground.administration_log import rotated
from penstock.changes.choosing import since_millis
from penstock.changes.command import command

ALICE, BOB = Who("alice", "10.0.0.7"), Who("bob", "10.0.0.8", client_id="\x1b[2J")


def line(minute: int, who: Who, change: Change, times: int = 1) -> bytes:
    time = datetime(2026, 11, 22, 9, minute, tzinfo=UTC)
    return Program("dc1", "broker 1").line(time, who, change, times)


LINES = [
    line(0, ALICE, Change(action="create", kind=Kind.TOPIC, name="page_views")),
    line(
        1,
        BOB,
        Change(
            action="alter",
            kind=Kind.TOPIC_CONFIG,
            name="page_views",
            before={"retention.ms": "86400000", "max.message.bytes": "1000"},
            after={"retention.ms": "3600000"},
        ),
    ),
    line(
        2,
        BOB,
        Change(
            action="delete",
            kind=Kind.TOPIC,
            name="orders",
            before={"partitions": "8"},
            result="TOPIC_AUTHORIZATION_FAILED",
            message="not authorized",
        ),
        times=17,
    ),
    line(
        3,
        ALICE,
        Change(
            action="create",
            kind=Kind.ACL,
            name="topic:page_views",
            after={"principal": "User:\x1b[31mred"},
        ),
    ),
    line(4, ALICE, Change(action="alter", kind=Kind.QUOTA, name="client-id=*,user=bob")),
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
    assert "1 that are no entries" in ended.stderr
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


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere.log"], 1, "no such file"),
        (["x", "--topic", "administration"], 2, "in place of files"),
        (["--since", "recently"], 2, "7d"),
        (["--kind", "weather"], 2, "weather"),
    ],
)
def test_wrong_usage(arguments: list[str], code: int, said: str) -> None:
    ended = changes(*arguments)
    assert (ended.exit_code, ended.stdout) == (code, "")
    assert said in ended.stderr


def test_nothing_is_no_mistake(log: Path) -> None:
    ended = changes(str(log), "--who", "nobody")
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert "no changes" in ended.stderr


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

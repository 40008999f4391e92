"""Which finding is one that there was before, and where the canary's line is looked for."""

from pathlib import Path
from typing import Any, Final

import pytest

from agent.monitoring.status import AgentPhase, FileStatus, Status
from audit.reconciling.findings import FaultKind, Finding
from penstock.gate.baseline import KnownFinding
from penstock.gate.canary import Line, Shipped, shipped, write_line

MISSING: dict[str, Any] = {
    "kind": FaultKind.MISSING,
    "words": "…",
    "tier": "broker",
    "host": "web-1",
    "path": "/var/log/a.log",
    "source": "s1",
    "partition": 0,
    "offset": 100,
    "offsets": 12,
    "seq": 100,
    "events": 12,
    "position": 1_000,
    "end_position": 1_120,
    "from_time": 60_000,
    "to_time": 120_000,
}
UNNAMED: dict[str, Any] = {
    "kind": FaultKind.UNNAMED,
    "words": "…",
    "tier": "broker",
    "events": 12,
    "from_time": 60_000,
    "to_time": 120_000,
}


UNWATCHED: dict[str, Any] = {
    "kind": FaultKind.UNKNOWN,
    "words": "…",
    "tier": "agent",
    "host": "web-1",
    "path": "/var/log/shop.log",
    "source": "s1",
    "position": 100,
    "from_time": 60_000,
    "to_time": 120_000,
}


def known(fields: dict[str, Any], topic: str = "dc1/clicks", **changes: Any) -> KnownFinding:
    return KnownFinding.of(topic, Finding(**{**fields, **changes}))


@pytest.mark.parametrize("fields", [MISSING, UNNAMED])
def test_the_same_is_known_whatever_its_words(fields: dict[str, Any]) -> None:
    assert known(fields).covers(known(fields, words="other words"))


@pytest.mark.parametrize(
    "changes",
    [
        {"offset": 104, "offsets": 8, "seq": 104, "events": 8, "position": 1_040},
        {"from_time": 0, "to_time": 240_000},
    ],
)
def test_less_of_it_is_known(changes: dict[str, Any]) -> None:
    assert known(MISSING).covers(known(MISSING, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"offsets": 13},
        {"offset": 99, "offsets": 13},
        {"events": 13},
        {"end_position": 1_121},
        {"host": "web-2"},
        {"partition": 1},
        {"source": "s2"},
        {"kind": FaultKind.CHANGED},
        {"offset": -1, "offsets": -1},
        {"topic": "dc2/clicks"},
    ],
)
def test_more_of_it_or_another_is_new(changes: dict[str, Any]) -> None:
    assert not known(MISSING).covers(known(MISSING, **changes))


def test_what_nobody_watched_is_known_by_its_time() -> None:
    """It begins at a byte and ends nobody knows where: another one later in the file is new."""
    later: dict[str, Any] = {"position": 200, "from_time": 600_000, "to_time": 660_000}
    assert known(UNWATCHED).covers(known(UNWATCHED))
    assert not known(UNWATCHED).covers(known(UNWATCHED, **later))


@pytest.mark.parametrize("changes", [{"events": 13}, {"from_time": 0}, {"to_time": 180_000}])
def test_what_has_no_name_is_known_by_its_time_and_size(changes: dict[str, Any]) -> None:
    assert not known(UNNAMED).covers(known(UNNAMED, **changes))


PATH: Final = Path("/var/log/penstock/canary.log")
LINE: Final = Line(PATH, b"token", end=100, written=0, inode=7)
LONG: Final = 1024 * 1024


def said(*files: FileStatus) -> Status:
    return Status(phase=AgentPhase.RUNNING, version="0", host="web-1", files=files)


def file(**changes: Any) -> FileStatus:
    fields = {"path": str(PATH), "source": "new", "input": "i", "topic": "canaries", "inode": 7}
    sizes = {"size": 100, "position": 100, "acknowledged": 100, "lag_bytes": 0}
    return FileStatus(**{**fields, **sizes, **changes})


OLD: Final = file(source="old", inode=6, size=LONG, position=LONG, acknowledged=LONG)


def test_it_is_shipped_when_its_file_is_acknowledged_up_to_its_end() -> None:
    assert shipped(said(file()), LINE)[0] == Shipped("web-1", "canaries", "new")
    found, why = shipped(said(file(acknowledged=60)), LINE)
    assert (found, "40 bytes" in why) == (None, True)


def test_what_was_renamed_a_moment_ago_is_another_file() -> None:
    found, why = shipped(said(OLD), LINE)
    assert (found, why) == (None, f"the agent on web-1 does not follow {PATH}")
    assert shipped(said(OLD, file(acknowledged=0)), LINE)[0] is None
    assert shipped(said(OLD, file()), LINE)[0] == Shipped("web-1", "canaries", "new")


def test_an_agent_that_does_not_say_which_file_it_follows_is_believed() -> None:
    assert shipped(said(file(inode=0)), LINE)[0] == Shipped("web-1", "canaries", "new")


def test_a_long_file_is_renamed_and_the_line_is_of_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "canary.log"
    path.write_bytes(b"x" * LONG + b"x\n")
    before = path.stat().st_ino
    line = write_line(path)
    assert line.inode == path.stat().st_ino != before
    assert line.end == path.stat().st_size < LONG

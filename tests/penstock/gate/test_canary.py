"""Where the canary's line is looked for, by what the agent says of its files."""

from pathlib import Path
from typing import Any, Final

from agent.status import AgentPhase, FileStatus, Status
from penstock.gate.canary import Line, Shipped, shipped, write_line

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

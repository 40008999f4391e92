"""Reading as a whole: what is full, slow or too long stops nothing else, and loses nothing."""

import os
from collections.abc import Collection
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from agent.config_inputs import Format
from agent.topic_schemas.values import TopicSchema
from tests.agent.pipeline_side import (
    OTHER_LINES,
    WITH_SEVERITY,
    PipelineSide,
    append,
    input_of,
    pipeline_side,
    wait_for,
)

HOUR: dict[str, Any] = {"batches": {"linger": 60.0}, "cpu": count(0, 60).__next__}  # and busy


def test_a_configuration_that_comes_while_the_journal_is_full_is_taken_in_the_end(
    tmp_path: Path,
) -> None:
    """What was read before goes out as it was to be then."""
    path = tmp_path / "a.log"
    path.write_text("one\n")
    before = input_of(path, "logs", app="before")
    with pipeline_side(tmp_path, before, **HOUR) as side, side.running():
        wait_for(lambda: side.position(path) == 4)
        with side.full_journal():
            side.pipeline.reload([msgspec.structs.replace(before, app="after")])
            wait_for(lambda: side.pipeline.full)
            assert side.events("logs") == []
        append(path, "two\n")
        wait_for(lambda: side.position(path) == 8)
        side.pipeline.reload([])
        said = wait_for(lambda: len(side.events("logs")) == 2 and side.events("logs"))
    found = [(each["message"], each["header"]["app"], each["header"]["seq"]) for each in said]
    assert found == [("one", "before", 0), ("two", "after", 1)]
    assert not side.pipeline.full


def test_a_new_schema_that_comes_while_the_journal_is_full_is_taken_in_the_end(
    tmp_path: Path,
) -> None:
    """A line of which a part was read by the old one is read anew by the new one."""
    files = [tmp_path / name for name in ("a.log", "b.log")]
    input_ = input_of(tmp_path / "*.log", "logs", format=Format.SYSLOG, max_line_bytes=60)
    head = "<34>1 2026-11-20T14:37:00Z host app - - - "
    with pipeline_side(tmp_path, input_, **HOUR) as side, side.running():
        files[0].write_text(f"{head}one\n")
        wait_for(lambda: side.position(files[0]) > 0)
        files[1].write_text(head + 100 * "x")
        intake = wait_for(lambda: side.intake(files[1]))
        wait_for(lambda: intake._held)
        with side.full_journal():
            side.schemas.learn(input_, TopicSchema("logs", OTHER_LINES, 2, WITH_SEVERITY))
            side.pipeline.schemas_changed()
            wait_for(lambda: side.pipeline.full)
        append(files[1], "\n")
        wait_for(lambda: side.position(files[1]) > 0)
        assert side.pipeline.feeds["logs"].warning == ""
        side.pipeline.reload([])
        wait_for(lambda: len(side.events("logs")) == 2)
    found = [(each["message"], each.get("severity")) for each in side.events("logs")]
    assert found == [("one", None), (18 * "x", "crit")]


def test_a_line_that_goes_on_and_on_stops_neither_other_files_nor_the_end(tmp_path: Path) -> None:
    """A core dump, or `truncate -s 64G x.log`."""
    inputs = [input_of(tmp_path / "long.log", "long"), input_of(tmp_path / "good.log", "good")]
    long, good = (Path(each.paths[0]) for each in inputs)
    long.touch()
    os.truncate(long, 64 << 30)
    with pipeline_side(tmp_path, *inputs) as side, side.running():
        intake = wait_for(lambda: side.intake(long))
        wait_for(lambda: intake._held)
        good.write_text("one\n")
        wait_for(lambda: side.messages("good") == ["one"])
        assert side.position(long) == 0


def test_an_input_has_begun_when_the_journal_knows_its_files(tmp_path: Path) -> None:
    """Else a kill in the first moments would have an old host's logs read from their beginning."""
    path = tmp_path / "old.log"
    path.write_text("old\n")
    told: list[tuple[set[str], int]] = []
    sides: list[PipelineSide] = []

    def begun(names: Collection[str]) -> None:
        told.append((set(names), len(sides[0].journal.sources)))

    input_ = input_of(path, "logs", start="end")
    with pipeline_side(tmp_path, input_, begun=begun, seen=()) as side:
        sides.append(side)
        with side.full_journal(), side.running():
            wait_for(lambda: side.pipeline.full)
            assert told == []
        assert told == []
    with pipeline_side(tmp_path, input_, begun=begun, seen=()) as side:
        sides[:] = [side]
        side.turn()
        assert told == [({"logs"}, 1)]
        append(path, "new\n")
        side.turn(times=3)
        assert side.messages("logs") == ["new"]
        assert len(told) == 1


def test_topics_that_stand_still_leave_room_for_the_others(tmp_path: Path) -> None:
    """Each of them holds its share, all of them together not what all others need."""
    bad = [f"bad-{number}" for number in range(4)]
    inputs = [input_of(tmp_path / f"{topic}.log", topic) for topic in (*bad, "good")]
    limits = {"in_flight_bytes": 64 * 1024}
    batches = {"linger": 0.0, "compression": "none"}
    with pipeline_side(tmp_path, *inputs, limits=limits, batches=batches) as side:
        for topic in bad:
            (tmp_path / f"{topic}.log").write_text("x\n")
        for at, topic in enumerate(bad):  # one after the other comes to a stop
            for _ in range(12):
                append(tmp_path / f"{topic}.log", 7 * f"{1000 * 'y'}\n")
                side.turn()
            side.cluster.stall(*bad[: at + 1])
        (tmp_path / "good.log").write_text("one\n")
        side.turn(times=2)
        assert side.messages("good") == ["one"]
        assert all(side.shipper.in_flight(topic)[1] > 8_000 for topic in bad)
        assert side.shipper.in_flight_bytes() < 2 * side.config.limits.in_flight_bytes


def test_a_topic_that_has_its_share_is_not_read_for(tmp_path: Path) -> None:
    """Whether it stands still is not known at once."""
    inputs = [input_of(tmp_path / f"{topic}.log", topic) for topic in ("slow", "good")]
    limits = {"in_flight_bytes": 8 * 1024}
    batches = {"linger": 0.0, "compression": "none"}
    slow = tmp_path / "slow.log"
    with pipeline_side(tmp_path, *inputs, limits=limits, batches=batches) as side:
        slow.write_text(5 * f"{1000 * 'y'}\n")
        side.turn(times=2)
        append(slow, "more\n")
        (tmp_path / "good.log").write_text("one\n")
        side.turn(times=2)
        assert side.position(slow) == 5 * 1001
        assert side.messages("good") == ["one"]
        side.cluster.acknowledge("slow")
        side.turn(times=2)
        assert side.messages("slow")[-1] == "more"


def test_while_the_journal_is_full_files_are_looked_at_all_the_same(tmp_path: Path) -> None:
    """One that comes and goes meanwhile is held, and read in the end."""
    first, second = tmp_path / "a.log", tmp_path / "b.log"
    long = 1200 * "x"  # so that what comes behind it is no news of its fingerprint
    batches = {"linger": 0.0, "compression": "none"}
    input_ = input_of(tmp_path / "*.log", "logs")
    with pipeline_side(tmp_path, input_, batches=batches) as side, side.running():
        first.write_text(f"{long}\n")
        wait_for(lambda: side.messages("logs") == [long])
        with side.full_journal():
            append(first, "two\n")
            wait_for(lambda: side.pipeline.full)
            append(first, "three\n")
            second.write_text("four\n")
            wait_for(lambda: side.position(second) == 0)
            second.unlink()
            intake = side.intake(first)
            assert intake is not None
            wait_for(lambda: intake.behind_since is not None)
        wait_for(lambda: len(side.events("logs")) == 4)
    assert sorted(side.messages("logs")) == ["four", "three", "two", long]
    assert side.eventless() == []

"""When what was read leaves: sooner than `linger` says while there is little to do, and not where
that would cost more than it is worth.

What the process computes, the test says; so is what becomes of batches.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.accounting.parcels import Eventless, Parcel
from agent.accounting.runs import Run, SourceId
from agent.encoding.topic_schemas.values import TopicSchema
from tests.agent.reading.pipeline_side import (
    OTHER_LINES,
    WITH_SEVERITY,
    PipelineSide,
    append,
    input_of,
    pipeline_side,
)


class Processor:
    """`share` of a core is in use, as time goes by."""

    def __init__(self) -> None:
        self.side: PipelineSide | None = None
        self.share = 0.0

    def __call__(self) -> float:
        return 0.0 if self.side is None else self.side.passed * self.share


@contextmanager
def leaving(
    directory: Path, *topics: str, share: float = 0.0, linger: float = 10.0, **settings: Any
) -> Iterator[PipelineSide]:
    """A file for each topic."""
    processor = Processor()
    inputs = [input_of(directory / f"{topic}*.log", topic) for topic in topics]
    batches = {"linger": linger}
    with pipeline_side(directory, *inputs, cpu=processor, batches=batches, **settings) as side:
        processor.side, processor.share = side, share
        yield side


def test_a_line_that_comes_to_a_quiet_agent_leaves_at_once(tmp_path: Path) -> None:
    path = tmp_path / "logs.log"
    with leaving(tmp_path, "logs") as side:
        side.turn(after=3)
        path.write_text("one\n")
        side.turn(times=2)
        assert side.messages("logs") == ["one"]


def test_lines_that_follow_each_other_leave_a_fifth_of_linger_later(tmp_path: Path) -> None:
    path = tmp_path / "logs.log"
    path.write_text("one\n")
    with leaving(tmp_path, "logs", linger=60) as side:
        side.turn(after=13)
        side.cluster.acknowledge("logs")
        for number in range(3):
            append(path, f"{number}\n")
            side.turn()
        assert side.messages("logs") == ["one"]
        side.turn(after=13)
        assert side.messages("logs") == ["one", "0", "1", "2"]
        assert len(side.cluster.parcels) == 2


def test_lines_of_a_busy_agent_wait_for_linger(tmp_path: Path) -> None:
    path = tmp_path / "logs.log"
    path.write_text("one\n")
    with leaving(tmp_path, "logs", share=0.3, linger=60) as side:
        side.turn(times=100)
        append(path, "two\n")
        side.turn(times=50)
        assert side.messages("logs") == []
        side.turn(times=60)
        assert side.messages("logs") == ["one", "two"]
        assert len(side.cluster.parcels) == 1


def test_many_files_leave_as_often_as_one(tmp_path: Path) -> None:
    """One that grows after the other, in each fiftieth of a `linger`."""
    paths = [tmp_path / f"logs-{number}.log" for number in range(20)]
    with leaving(tmp_path, "logs", linger=60) as side:
        began = side.now
        for turn in range(100):
            append(paths[turn % 20], f"{turn}\n")
            side.turn(after=60 / 50)
            side.cluster.acknowledge("logs")
        assert len(side.messages("logs")) > 80
        assert 5 <= len(side.cluster.parcels) <= (side.now - began) * 5 / 60


def test_what_is_on_its_way_is_waited_for(tmp_path: Path) -> None:
    """By lines of its topic, and no other's."""
    slow, other = tmp_path / "slow.log", tmp_path / "other.log"
    slow.write_text("one\n")
    with leaving(tmp_path, "slow", "other", linger=60) as side:
        side.turn(after=13)
        for path in (slow, other):
            append(path, "two\n")
        side.turn(after=13, times=2)
        assert (side.messages("slow"), side.messages("other")) == (["one"], ["two"])
        side.cluster.acknowledge("slow")
        side.turn(after=13)
        assert side.messages("slow") == ["one", "two"]


def test_brokers_that_are_slow_get_a_batch_in_each_linger(tmp_path: Path) -> None:
    """As they are after the second time; until they are quick again."""
    path = tmp_path / "logs.log"
    path.write_text("one\n")
    with leaving(tmp_path, "logs", linger=60) as side:
        side.turn(after=13)
        for text in ("two\n", "three\n"):
            append(path, text)
            side.turn(after=13)
            side.cluster.acknowledge("logs")
            side.turn(after=13)
        assert side.messages("logs") == ["one", "two"]
        side.turn(after=48)
        assert side.messages("logs") == ["one", "two", "three"]
        side.cluster.acknowledge("logs")
        append(path, "four\n")
        side.turn(after=13)
        assert side.messages("logs") == ["one", "two", "three", "four"]


def test_two_schemas_of_a_topic_leave_together(tmp_path: Path) -> None:
    """Neither waits for what the other has just sent."""
    path = tmp_path / "logs.log"
    with leaving(tmp_path, "logs", linger=60) as side:
        (feed,) = side.pipeline.feeds.values()
        for lines in ("one\n", "two\n"):
            append(path, lines)
            side.turn(after=1)
            feed.schema = TopicSchema("logs", OTHER_LINES, 2, WITH_SEVERITY)
        side.turn(after=13)
        assert len(side.cluster.parcels) == 2


def test_where_every_batch_is_flushed_lines_wait_for_linger(tmp_path: Path) -> None:
    path = tmp_path / "logs.log"
    path.write_text("one\n")
    with leaving(tmp_path, "logs", linger=60, journal_sync=True) as side:
        side.turn(after=50)
        assert side.messages("logs") == []
        side.turn(after=61)
        assert side.messages("logs") == ["one"]


def test_while_much_waits_for_the_ledger_lines_wait_for_linger(tmp_path: Path) -> None:
    """As statements are given up one day, and their number goes with that of the batches."""
    path = tmp_path / "logs.log"
    path.write_text("one\n")
    with leaving(tmp_path, "logs", linger=60) as side:
        for _ in range(5_000):
            run = Run(SourceId("gone"), 0, 0, 0, 1, 0)
            statement = Eventless(side.journal.next_number(), "logs", run)
            side.journal.parcel(Parcel((), (statement,), {}))
        side.turn(after=50)
        assert side.messages("logs") == []
        side.turn(after=61)
        assert side.messages("logs") == ["one"]


def test_files_are_looked_at_when_lines_may_leave(tmp_path: Path) -> None:
    """So that what leaves was read just before; less often while they wait for `linger`."""
    path = tmp_path / "logs.log"
    path.write_text("one\n")
    with leaving(tmp_path, "logs", linger=0.05) as side:
        side.turn(after=1)
        assert side.messages("logs") == ["one"]
        assert 0 < side.pipeline._until_next() <= 0.02
    with leaving(tmp_path, "logs", linger=60) as side:
        side.cluster.acknowledge("logs")
        for text in ("two\n", "three\n"):
            append(path, text)
            side.turn(after=13)
        assert side.messages("logs") == ["two"]
        assert side.pipeline._until_next() == pytest.approx(0.02)
    with leaving(tmp_path, "logs", share=1.0, linger=60) as side:
        append(path, "four\n")
        side.turn(after=10)
        assert side.pipeline._until_next() == pytest.approx(0.025)

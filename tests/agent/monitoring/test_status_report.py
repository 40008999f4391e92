"""What the operator sees: lag, what cannot be read, and what was cut, lost and given up."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.accounting.parcels import Parcel
from agent.accounting.runs import Run, SourceId
from agent.configuration.lines import Multiline
from agent.configuration.refusals import Refusal
from agent.journal.contents import MOST_WAITING
from agent.monitoring.problems import LastingProblems
from agent.monitoring.status import FileStatus, InputStatus
from harness.processes.waiting import wait_until
from ledger.health import Problem, ProblemKind
from tests.agent.nobody import as_nobody, open_folder
from tests.agent.reading.pipeline_side import PipelineSide, append, input_of, pipeline_side

LONG = f"{30 * 'x'}\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as path:
        yield path


def file_status(side: PipelineSide) -> FileStatus:
    return side.status().files[0]


def input_status(side: PipelineSide) -> InputStatus:
    return side.status().inputs[0]


def test_what_cannot_be_read_is_named_until_it_can_be_or_is_gone(
    folder: Path, tmp_path: Path
) -> None:
    secret, gone, other = folder / "secret.log", folder / "gone.log", folder / "other.txt"
    for path in (secret, gone, other):
        path.write_text("one\n")
        path.chmod(0o600 if os.geteuid() == 0 else 0)
    inputs = input_of(folder / "*.log", "logs"), input_of(folder / "none*.log", "none")
    with pipeline_side(tmp_path, *inputs) as side:
        with as_nobody():
            side.turn(times=2)
        logs, none = side.status().inputs
        assert [(each.path, each.why) for each in logs.unreadable] == [
            (str(gone), "Permission denied"),
            (str(secret), "Permission denied"),
        ]
        assert (logs.unreadable_files, none.unreadable_files, none.unreadable) == (2, 0, ())
        denied = "unreadable", str(gone), "Permission denied; and 1 more of input logs"
        assert side.problems() == [denied]
        gone.unlink()
        secret.chmod(0o644)
        with as_nobody():
            side.turn(times=3)
        logs, _ = side.status().inputs
        assert (logs.unreadable_files, logs.unreadable) == (0, ())
        assert side.pipeline.recorder.unreadable == {}
        assert side.messages("logs") == ["one"]


@pytest.mark.parametrize("has_room", [True, False])
def test_the_lag_is_that_of_the_oldest_byte_that_waits(tmp_path: Path, has_room: bool) -> None:
    """Not of the last time when there was none: a log may be written once a day."""
    path = tmp_path / "a.log"
    path.write_text("one\n")
    with pipeline_side(tmp_path, input_of(path, "logs")) as side, side.running():
        wait_until(lambda: side.messages("logs") == ["one"])
        side.cluster.acknowledge("logs")
        assert file_status(side).inode == path.stat().st_ino
        intake = side.intake(path)
        assert intake is not None
        assert (file_status(side).lag_bytes, file_status(side).lag_seconds) == (0, 0.0)
        intake.read_at -= 86_400
        if has_room:
            side.cluster.stall("logs")
        else:
            side.shipper.in_flight_limit = 0
        came = time.monotonic()
        append(path, "two\n")
        wait_until(lambda: file_status(side).lag_bytes)
        assert 0 <= file_status(side).lag_seconds <= time.monotonic() - came
        assert file_status(side).lag_bytes == 4
        append(path, "three\n")
        wait_until(lambda: file_status(side).lag_bytes == 10)
        side.passes(7)
        assert 7 < input_status(side).lag_seconds <= 7 + time.monotonic() - came
        side.cluster.stall()
        side.shipper.in_flight_limit = 1 << 20
        wait_until(lambda: side.messages("logs") == ["one", "two", "three"])
        side.cluster.acknowledge("logs")
        assert (file_status(side).lag_bytes, file_status(side).lag_seconds) == (0, 0.0)


def test_the_lag_of_an_input_whose_last_event_is_never_complete(tmp_path: Path) -> None:
    """Of each event the next line shows that it is; so there always are unread bytes."""
    path = tmp_path / "a.log"
    start = Multiline(start="^at")
    with pipeline_side(tmp_path, input_of(path, "logs", multiline=start)) as side:
        for number in range(200):
            if number == 100:
                side.cluster.stall("logs")
            append(path, f"at {number}\n more\n")
            side.turn(after=10.0)
            assert 0 <= file_status(side).lag_seconds - 10 * max(0, number - 99) < 20


def test_why_an_input_stands_still_is_said(tmp_path: Path) -> None:
    with pipeline_side(tmp_path, input_of(tmp_path / "a.log", "logs")) as side:
        assert input_status(side).stopped == ""
        side.cluster.stall("logs", "logs.dead", "another")
        assert input_status(side).stopped == (
            "topic logs: the test says so; topic logs.dead: the test says so"
        )
        assert side.problems() == [], "brokers that are away have alerts of their own"
        side.cluster.stall("logs", "another", standing={"logs", "another"})
        rejected = [Refusal(path="/etc/d", why="gone"), Refusal(path="/etc/d/a", why="line 1")]
        stopped = "stopped", "logs", "topic logs: the test says so"
        unread = ("unreadable", "/etc/d", "gone"), ("rejected", "/etc/d/a", "line 1")
        assert side.problems(*rejected) == [*unread, stopped]
        side.pipeline.feeds["logs"].fail(OSError("a reason"))
        ((_, _, text),) = side.problems()
        assert (
            text == "reading failed, see the log: OSError('a reason'); topic logs: the test says so"
        )


def test_an_input_that_has_lost_all_its_files_is_named_for_a_day(tmp_path: Path) -> None:
    path, moved = tmp_path / "a.log", tmp_path / "moved.log"
    append(path, "one\n")
    inputs = input_of(tmp_path / "a.log*", "logs"), input_of(tmp_path / "none*", "none")
    with pipeline_side(tmp_path, *inputs) as side:
        side.turn(times=3)
        assert [each.has_matches for each in side.status().inputs] == [True, False]
        path.rename(moved)
        (tmp_path / "a.log.1.gz").touch()
        side.turn(times=3)
        assert side.problems() == []
        side.turn(after=601.0, times=2)
        ((kind, subject, text),) = side.problems()
        assert (kind, subject) == ("unmatched", "logs")
        assert re.fullmatch(
            rf"no file matches since .* UTC; the last was {re.escape(str(path))}", text
        )
        assert [each.warning for each in side.status().inputs] == [text, ""]
        assert [each.has_matches for each in side.status().inputs] == [False, False]
    with pipeline_side(tmp_path, *inputs) as side:
        side.turn(after=700.0, times=2)
        assert [kind for kind, _, _ in side.problems()] == ["unmatched"], "after a restart, too"
        moved.rename(path)
        side.turn(times=3)
        assert side.problems() == []
        path.unlink()
        side.turn(after=700.0, times=2)
        assert [kind for kind, _, _ in side.problems()] == ["unmatched"]
        side.turn(after=86_400.0)
        assert side.problems() == []


@pytest.mark.parametrize(
    ("looks", "lasting"),
    [("a a", "a0"), ("a", ""), ("a . a .", ""), ("a a .", "a0"), ("a a . a", "a0"), ("a a . .", ""),
     ("a a . . a a", "a4"), ("a ab b", "a0 b1"), ("a ab b .", "b1")],
)  # fmt: skip
def test_a_problem_begins_and_ends_with_the_second_look(looks: str, lasting: str) -> None:
    problems = LastingProblems()
    for at, names in enumerate(looks.split()):
        current = [Problem(ProblemKind.OTHER, name, "", 99) for name in names.strip(".")]
        shown = problems.look(current, at)
    assert " ".join(f"{each.subject}{each.since}" for each in shown) == lasting


def test_what_is_read_and_not_acknowledged_is_lag(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\n")
    with pipeline_side(tmp_path, input_of(path, "logs")) as side:
        side.turn(times=3)
        found = file_status(side)
        assert (found.position, found.acknowledged, found.lag_bytes) == (4, 0, 4)
        side.cluster.acknowledge("logs")
        found = file_status(side)
        assert (found.position, found.acknowledged, found.lag_bytes) == (4, 4, 0)


def test_a_dead_letter_on_its_way_is_lag(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\n" + LONG)
    input_ = input_of(path, "logs", max_line_bytes=10, long_lines="dead")
    with pipeline_side(tmp_path, input_) as side:
        side.turn(times=3)
        side.cluster.acknowledge("logs")
        found = file_status(side)
        assert found.position == found.size == 4 + len(LONG)
        assert found.acknowledged < found.size
        assert found.lag_bytes >= len(LONG)
        side.cluster.acknowledge("logs.dead")
        assert file_status(side).lag_bytes == 0
        assert input_status(side).dead_lettered_lines == 1


def test_lines_that_were_cut_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\n" + LONG + "two\n")
    with pipeline_side(tmp_path, input_of(path, "logs", max_line_bytes=10)) as side:
        side.turn(times=4)
        assert side.messages("logs") == ["one", 10 * "x", "two"]
        assert input_status(side).cut_lines == 1


def test_bytes_that_were_lost_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with pipeline_side(tmp_path, input_of(path, "logs")) as side:
        side.cluster.stall("logs")
        path.write_text("one\n" * 25)
        side.turn(times=2)
        path.write_text("two\n")
        side.turn(times=4)
        assert input_status(side).lost_bytes == 100


def test_statements_that_were_given_up_are_counted(tmp_path: Path) -> None:
    """The one sign that the ledger has holes."""
    path = tmp_path / "a.log"
    path.write_text("one\n")
    with pipeline_side(tmp_path, input_of(path, "logs")) as side:
        side.turn(times=2)
        assert side.status().journal.given_up_statements == 0
        (followed,) = side.files.following()
        give_up_some(side, followed.source)
        given_up = side.journal.sizes.given_up
        assert given_up > 0
        assert side.status().journal.given_up_statements == given_up


def give_up_some(side: PipelineSide, source: SourceId) -> None:
    """So many runs in one batch that it is too much to tell."""
    (open_,) = side.journal.open_batches
    number = side.journal.next_number()
    runs = (Run(source, 0, 0, 0, 0, 0),) * MOST_WAITING
    side.journal.parcel(Parcel((replace(open_.outgoing, number=number, runs=runs),), (), {}))
    side.journal.acknowledged(number, 0)

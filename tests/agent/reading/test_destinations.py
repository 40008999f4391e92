"""What is read and where it goes: nothing is said twice, and dead letters stop only themselves."""

from pathlib import Path

import pytest

from agent.accounting.alterations import AlteredText
from agent.accounting.runs import Fate
from agent.errors import JournalFull
from agent.files.happenings import Compressed, Lost
from tests.agent.reading.pipeline_side import PipelineSide, append, input_of, pipeline_side

LONG = f"{30 * 'x'}\n"


def dead(side: PipelineSide, topic: str) -> list[tuple[int, str]]:
    """Position and first byte of dead letters."""
    found = side.events(f"{topic}.dead")
    return [(each["header"]["position"], each["raw"][:1].decode()) for each in found]


def test_a_loss_that_could_not_be_written_down_at_once_is_stated_once(tmp_path: Path) -> None:
    """A full disk is just when files are truncated."""
    path = tmp_path / "a.log"
    with pipeline_side(tmp_path, input_of(path, "logs")) as side:
        side.cluster.stall("logs")
        path.write_text("one\n" * 25)
        side.turn(times=2)
        (followed,) = side.files.following()
        following = side.pipeline.recorder
        following.expect([Lost(followed, 0, 60, "truncated"), Lost(followed, 60, 40, "truncated")])
        with side.full_journal():
            for _ in range(2):
                with pytest.raises(JournalFull):
                    side.pipeline._turn(side.now)
        side.turn(times=2)
        runs = [each.run for each in side.eventless()]
        assert [(each.position, each.end_position) for each in runs] == [(0, 60), (60, 100)]
        assert {each.fate for run in runs for each in run.excepted} == {Fate.LOST}
        assert [each.run for each in side.journal.statements] == runs  # type: ignore[union-attr]
        assert side.pipeline.feeds["logs"].counts.lost_bytes == 100
        append(path, "two\n")
        side.cluster.stall()
        side.turn(times=2)
        assert side.messages("logs") == ["two"]


def test_an_unread_file_that_could_not_be_written_down_at_once_is_stated_once(
    tmp_path: Path,
) -> None:
    """Though a batch was closed before it, and both were tried again."""
    path = tmp_path / "a.log"
    path.write_bytes(b"\xff\n")
    with pipeline_side(tmp_path, input_of(path, "logs"), batches={"linger": 60.0}) as side:
        side.turn(times=2)
        archives = [Compressed("logs", f"/log/{name}.gz", "logs", is_left=True) for name in "ab"]
        side.pipeline.recorder.expect(archives)
        with side.full_journal():
            for _ in range(3):
                with pytest.raises(JournalFull):
                    side.pipeline._turn(side.now)
        side.turn(after=61.0, times=3)
        stated = [
            (Path(each.path).name, each.altered.kind.value, each.altered.count)
            for each in side.journal.statements
            if isinstance(each, AlteredText)
        ]
        unread = [("a.gz", "unread", 1), ("b.gz", "unread", 1)]
        assert sorted(stated) == [*unread[:1], ("a.log", "replaced", 1), *unread[1:]]
        assert side.pipeline.feeds["logs"].counts.unread_files == 2
        assert side.pipeline.feeds["logs"].counts.replaced_lines == 1


def test_what_was_read_before_a_loss_goes_first(tmp_path: Path) -> None:
    """Also if the journal was full between the two."""
    path = tmp_path / "a.log"
    path.write_text("one\n")
    with pipeline_side(tmp_path, input_of(path, "logs"), batches={"linger": 60.0}) as side:
        side.turn(times=2)
        (followed,) = side.files.following()
        assert side.position(path) == 4
        side.pipeline.recorder.expect([Lost(followed, 4, 6, "gone")])
        with side.full_journal(), pytest.raises(JournalFull):
            side.pipeline._turn(side.now)
        side.turn()
        assert side.messages("logs") == ["one"]
        (lost,) = side.eventless()
        assert (lost.run.seq, lost.run.position, lost.run.end_position) == (1, 4, 10)
        assert len(side.cluster.parcels[0].batches) == 1
        known = side.journal.known_source(followed.source)
        assert known is not None
        assert (known.progress.position, known.progress.seq) == (10, 1)


def test_dead_letters_that_do_not_move_stop_no_good_line(tmp_path: Path) -> None:
    """Not even when there have been dead letters before."""
    bad, good = tmp_path / "bad.log", tmp_path / "good.log"
    input_ = input_of(tmp_path / "*.log", "logs", max_line_bytes=10, long_lines="dead")
    with pipeline_side(tmp_path, input_) as side:
        bad.write_text(LONG)
        side.turn(times=2)
        assert dead(side, "logs") == [(0, "x")]
        side.cluster.stall("logs.dead")
        append(bad, LONG + "behind\n")
        good.write_text("one\n")
        side.turn(times=3)
        append(good, "two\n")
        side.turn(times=3)
        assert side.messages("logs") == ["one", "two"]
        assert side.position(bad) == len(LONG)
        side.cluster.stall()
        side.turn(after=1, times=4)
        assert side.messages("logs") == ["one", "two", "behind"]
        assert dead(side, "logs") == [(0, "x"), (len(LONG), "x")]


def test_a_first_dead_letter_waits_for_its_topic_and_stops_no_other_file(tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.log", tmp_path / "good.log"
    input_ = input_of(tmp_path / "*.log", "logs", max_line_bytes=10, long_lines="dead")
    with pipeline_side(tmp_path, input_) as side:
        side.cluster.stall("logs.dead")
        bad.write_text(LONG)
        side.turn(times=2)
        good.write_text("one\n")
        side.turn(times=4)
        assert side.messages("logs") == ["one"]
        assert side.position(bad) == 0
        side.cluster.stall()
        side.turn(after=1, times=4)
        assert dead(side, "logs") == [(0, "x")]


def test_a_topic_that_does_not_move_is_not_read_for(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.log", tmp_path / "bad.log"
    with pipeline_side(tmp_path, input_of(good, "good"), input_of(bad, "bad")) as side:
        side.cluster.stall("bad")
        for path in (good, bad):
            path.write_text("one\n")
        side.turn(times=3)
        assert side.messages("good") == ["one"]
        assert side.position(bad) == 0
        side.cluster.stall()
        side.turn(times=3)
        assert side.messages("bad") == ["one"]


def test_numbers_of_a_restarted_agent_follow_those_that_are_open(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\n")
    with pipeline_side(tmp_path, input_of(path, "logs")) as side:
        side.turn(times=2)
    with pipeline_side(tmp_path, input_of(path, "logs")) as side:
        (open_,) = side.journal.open_batches
        assert side.pipeline.destinations.last_number >= open_.outgoing.number
        append(path, "two\n")
        side.turn(times=2)
        assert [each["header"]["seq"] for each in side.events("logs")] == [1]
        assert side.pipeline.destinations.last_number > open_.outgoing.number


def test_a_source_is_told_apart_by_its_input(tmp_path: Path) -> None:
    """Of one topic, two inputs: each with its own app."""
    inputs = [
        input_of(tmp_path / f"{name}.log", "logs", name=name, app=f"app-{name}") for name in "ab"
    ]
    with pipeline_side(tmp_path, *inputs) as side:
        for name in "ab":
            (tmp_path / f"{name}.log").write_text(f"{name}\n")
        side.turn(times=3)
        found = {each["message"]: each["header"]["app"] for each in side.events("logs")}
        assert found == {"a": "app-a", "b": "app-b"}
        counts = {name: each.counts for name, each in side.pipeline.feeds.items()}
        assert {name: (each.lines, each.bytes) for name, each in counts.items()} == {
            "a": (1, 2),
            "b": (1, 2),
        }

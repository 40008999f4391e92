"""Heartbeats of real files: what they may not promise, and what must not silence them."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from agent.journal.state import NotSeen
from agent.recognition.followed import Followed
from tests.agent.nobody import as_nobody, open_folder
from tests.agent.reading.pipeline_side import PipelineSide, append, input_of, pipeline_side
from tests.system.small_disk import mounted_disk

NEVER = 0  # nothing is promised, but that the topic is shipped to
FIFTY_YEARS = 50 * 365 * 86_400.0


def until(side: PipelineSide, topic: str) -> int:
    return side.cluster.heartbeats.get(topic, -1)


def millis(side: PipelineSide) -> int:
    return int(side.wall() * 1000)


def test_what_is_read_and_not_acknowledged_holds_a_heartbeat_back(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with pipeline_side(tmp_path, input_of(path, "logs")) as side:
        side.turn(times=3)
        assert until(side, "logs") > millis(side) - 1000
        path.write_text("one\n")
        written = millis(side) + 300
        side.turn(times=6)
        assert side.messages("logs") == ["one"]
        assert NEVER < until(side, "logs") <= written
        side.cluster.acknowledge("logs")
        side.turn(times=3)
        assert until(side, "logs") > written


def test_one_topic_that_stands_still_silences_no_other(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.log", tmp_path / "bad.log"
    with pipeline_side(tmp_path, input_of(good, "good"), input_of(bad, "bad")) as side:
        for path in (bad, good):
            path.write_text("one\n")
        side.turn(times=2)
        for topic in ("bad", "good"):
            assert side.messages(topic) == ["one"]
        side.cluster.acknowledge("good")
        side.turn(times=3)
        assert until(side, "good") > millis(side) - 1000
        assert until(side, "bad") == NEVER


def test_dead_letters_hold_the_heartbeat_of_their_topic_back(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(f"{30 * 'x'}\n")
    input_ = input_of(path, "logs", max_line_bytes=10, long_lines="dead")
    with pipeline_side(tmp_path, input_) as side:
        side.turn(times=6)
        assert side.shipper.oldest_open("logs") is None
        assert until(side, "logs") == NEVER
        side.cluster.acknowledge("logs.dead")
        side.turn(times=3)
        assert until(side, "logs") > millis(side) - 1000


def test_after_a_restart_what_is_open_holds_a_heartbeat_back(tmp_path: Path) -> None:
    """It is read already, and was never acknowledged."""
    good, bad = tmp_path / "good.log", tmp_path / "bad.log"
    inputs = input_of(good, "good"), input_of(bad, "bad")
    bad.write_text("one\n")
    with pipeline_side(tmp_path, *inputs) as side:
        side.turn(times=2)
        assert side.messages("bad") == ["one"]
    with pipeline_side(tmp_path, *inputs) as side:
        side.turn(times=6)
        assert side.position(bad) == 4
        assert until(side, "good") > millis(side) - 1000
        assert until(side, "bad") == NEVER
        side.cluster.acknowledge("bad")
        side.turn(times=3)
        assert until(side, "bad") > millis(side) - 1000


def test_a_clock_that_jumps_ahead_is_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What was promised cannot be taken back; and when the clock is right again, it goes on."""
    with pipeline_side(tmp_path, input_of(tmp_path / "a.log", "logs")) as side:
        side.turn(times=3)
        began = until(side, "logs")
        assert began > NEVER
        since = side.now
        side.clock_error = FIFTY_YEARS
        side.turn(times=20)
        assert began < until(side, "logs") < began + 11_000 * (side.now - since)
        side.clock_error = -600.0
        side.turn(times=6)
        assert "the clock was set back" in caplog.text
        assert millis(side) - 1000 < until(side, "logs") <= millis(side)


def test_a_step_of_a_second_is_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pipeline_side(tmp_path, input_of(tmp_path / "a.log", "logs")) as side:
        for error in (0.0, 1.0, 0.0, -1.0):
            side.clock_error = error
            side.turn(times=9)
            assert until(side, "logs") > millis(side) - 1000
        assert "clock" not in caplog.text


def test_a_file_of_which_it_is_not_clear_yet_what_it_is_is_waited_for(tmp_path: Path) -> None:
    """A copy of a file that is followed: what of it is new may be an event of long ago."""
    first, copy = tmp_path / "a.log", tmp_path / "b.log"
    first.write_text("one\n")
    with pipeline_side(tmp_path, input_of(tmp_path / "*.log", "logs")) as side:
        side.turn(times=2)
        side.cluster.acknowledge("logs")
        side.turn(times=3)
        before = until(side, "logs")
        assert before > NEVER
        shutil.copy(first, copy)
        copied = millis(side)
        side.turn(times=5)
        assert side.position(copy) == -1
        assert before <= until(side, "logs") < copied + 300
        side.turn(times=5)
        assert side.messages("logs") == ["one", "one"]
        assert until(side, "logs") < copied + 300
        side.cluster.acknowledge("logs")
        side.turn(times=3)
        assert until(side, "logs") > millis(side) - 1000


@pytest.mark.parametrize("what", ["trouble", "suspect"])
def test_a_file_that_fails_holds_its_own_topic_back_and_no_other(tmp_path: Path, what: str) -> None:
    """Nobody knows how much it has: its size is as old as its trouble."""
    good, bad = tmp_path / "good.log", tmp_path / "bad.log"
    with pipeline_side(tmp_path, input_of(good, "good"), input_of(bad, "bad")) as side:
        for path in (good, bad):
            path.write_text("one\n")
        side.turn(times=2)
        side.cluster.acknowledge("good", "bad")
        side.turn(times=3)
        before = until(side, "bad")
        assert before > NEVER
        (followed,) = [each for each in side.files.following() if each.topic == "bad"]
        for _ in range(3):
            look_and_beat(side, followed, what)
        assert until(side, "bad") == before
        assert until(side, "good") > before + 800
        side.turn(times=3)
        assert until(side, "bad") > before + 800


def look_and_beat(side: PipelineSide, followed: Followed, what: str) -> None:
    """With a file that fails when it is looked at."""
    side.passes(0.3)
    side.files.look(side.now)
    setattr(followed, what, OSError(errno.EIO, "no device") if what == "trouble" else True)
    side.pipeline._heartbeats.beat(side.now)
    setattr(followed, what, None if what == "trouble" else False)


def test_a_folder_that_was_removed_silences_nobody_for_long(tmp_path: Path) -> None:
    """Of a file that no handle was left of: it is gone with its folder, and that is said."""
    pod, good = tmp_path / "pods/a", tmp_path / "good.log"
    pod.mkdir(parents=True)
    for path in (pod / "0.log", good):
        path.write_text("one\n")
    inputs = input_of(tmp_path / "pods/*/0.log", "pods"), input_of(good, "good")
    with pipeline_side(tmp_path, *inputs) as side:
        side.turn(times=2)
        side.cluster.acknowledge("pods", "good")
        side.turn(times=3)
        passed = side.passed
    shutil.rmtree(pod)
    with pipeline_side(tmp_path, *inputs) as side:
        side.passes(passed)
        side.turn(times=6)
        assert until(side, "good") > millis(side) - 1000
        assert until(side, "pods") > millis(side) - 1000
        unseen = [each.unwatched for each in side.journal.statements if isinstance(each, NotSeen)]
        assert [each.path for each in unseen if each.source] == [str(pod / "0.log")]


@pytest.mark.parametrize("unread", [False, True])
def test_a_file_that_is_away_holds_its_own_topic_back_for_a_while(
    tmp_path: Path, unread: bool
) -> None:
    """Its device is gone, as far as anybody can tell: it may come back."""
    away, good = tmp_path / "disk/a.log", tmp_path / "good.log"
    inputs = input_of(away, "away"), input_of(good, "good")
    with mounted_disk(tmp_path, 1):
        for path in (away, good):
            path.write_text("one\n")
        with pipeline_side(tmp_path, *inputs) as side:
            side.turn(times=2)
            side.cluster.acknowledge("away", "good")
            side.turn(times=3)
            passed = side.passed
            if unread:
                append(away, "two\n")
                side.files.look(side.now)
                (followed,) = [each for each in side.files.following() if each.topic == "away"]
                side.journal.source(side.files.snapshot_of(followed))
    with pipeline_side(tmp_path, *inputs, scan_interval=5.0) as side:
        side.passes(passed)
        side.turn(times=3)
        scanned = side.files.scanned_millis
        side.turn(times=10)
        assert side.files.scanned_millis == scanned, "it is looked for at scans only"
        side.turn(times=90)
        assert until(side, "good") > millis(side) - 6000
        assert until(side, "away") == NEVER
        side.passes(3600.0)
        side.turn(times=300)
        assert until(side, "away") > millis(side) - 6000
        unseen = [each.unwatched for each in side.journal.statements if isinstance(each, NotSeen)]
        assert [each.path for each in unseen if each.source] == [str(away)]


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_nobody_may_read_holds_its_own_topic_back_and_no_other(
    tmp_path: Path, what: str
) -> None:
    with open_folder() as folder:
        bad, good = folder / "bad/app.log", folder / "good.log"
        bad.parent.mkdir()
        for path in (bad, good):
            path.write_text("one\n")
        inputs = input_of(folder / "*/app.log", "bad"), input_of(good, "good")
        with pipeline_side(tmp_path, *inputs) as side:
            with as_nobody():
                side.turn(times=2)
                side.cluster.acknowledge("good", "bad")
                side.turn(times=3)
            bad.rename(bad.parent / "app.log.1")
            bad.write_text("two\n")
            barred, mode = (bad, 0o644) if what == "file" else (bad.parent, 0o755)
            barred.chmod(0o600 if os.geteuid() == 0 else 0)
            written = millis(side)
            with as_nobody():
                side.turn(times=9)
            assert NEVER < until(side, "bad") <= written + 300
            assert until(side, "good") > millis(side) - 1000
            barred.chmod(mode)
            with as_nobody():
                side.turn(times=3)
                side.cluster.acknowledge("bad")
                side.turn(times=3)
            assert side.messages("bad") == ["one", "two"]
            assert until(side, "bad") > millis(side) - 1000

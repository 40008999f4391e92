"""Following files: which are meant, where they begin, what is no file. See also the model."""

import os
import threading
import time
from pathlib import Path

import pytest

from agent.configuration.file_inputs import FileInput, read_inputs, write_inputs
from agent.files.files import Files
from agent.files.happenings import (
    Appeared,
    Compressed,
    Deleted,
    Polling,
    Released,
    Renamed,
    Unreadable,
)
from harness.processes.open_files import open_files
from tests.agent.files.journalled_files import LogFolder, append
from tests.agent.files.scenarios import Scenario, check, scenarios


@scenarios(
    Scenario(
        "a link that is led elsewhere",
        "write 1.log one; write 2.log two; link 1.log current; turn; rm current; "
        "link 2.log current; write 1.log late; turn",
        "one late two",
        follow="current",
    ),
    Scenario(
        "a folder that comes and goes",
        "look; mkdir a; mkdir a/deep; write a/deep/app.log one; turn; write a/deep/app.log two; "
        "rmtree a; turn; mkdir a; mkdir a/deep; look; write a/deep/app.log three; turn",
        "one two three",
        follow="**/deep/app.log",
    ),
    Scenario(
        "the folder of an input comes later",
        "look; mkdir x; look; mkdir x/y; look; write x/y/app.log one; turn",
        "one",
        follow="x/y/app.log",
    ),
)
def test_what_is_heard_of_by_its_event(logs: LogFolder, scenario: Scenario) -> None:
    check(logs, scenario, ignore="*", scan_interval=1e9)


def test_at_rest_nothing_but_an_event_can_bring_something(logs: LogFolder) -> None:
    files, log = logs.follow(scan_interval=1e9), logs.log
    files.turn()
    files.turn()
    assert files.files.at_rest
    append(log, "one\n")
    files.turn()
    files.turn()
    assert not files.files.at_rest  # it may grow on
    append(log, "two\n")
    files.look()
    assert not files.files.at_rest  # there is something to be read
    files.turn()
    files.turn(1.0)
    files.turn(1.0)
    assert files.files.at_rest
    append(log, "three\n")
    files.files.wait(60.0)
    files.look()
    assert not files.files.at_rest


def test_what_grows_now_and_then_is_watched_again_at_once(logs: LogFolder) -> None:
    files = logs.follow(scan_interval=1e9)
    with (logs.log).open("ab", buffering=0) as log:
        log.write(b"one\n")
        for _ in range(3):
            files.turn(1.0)
        assert files.files.at_rest
        log.write(b"two\n")
        assert files.turn(1.0) == b"two\n"
        files.turn()
        assert files.files.at_rest
        log.write(b"three\n")
        assert files.turn() == b"three\n"
        files.turn()
        assert not files.files.at_rest  # so soon after the last one it may grow on


def test_without_events_there_is_no_rest(logs: LogFolder) -> None:
    files, log = logs.follow(scan_interval=1e9, events=False), logs.log
    append(log, "one\n")
    files.turn()
    for _ in range(3):
        files.turn(1.0)
    assert not files.files.at_rest


def test_hard_and_symbolic_links_are_one_file(logs: LogFolder) -> None:
    log = logs.log
    append(log, "one\n")
    (logs / "app.log.hard").hardlink_to(log)
    (logs / "app.log.soft").symlink_to(log)
    (logs / "app.log.loop").symlink_to("app.log.loop")
    (logs / "app.log.nowhere").symlink_to("nowhere")
    files = logs.follow()
    assert files.turn() == b"one\n"
    assert next(files.of(Appeared)).followed.path == str(log)
    assert [Path(each.path).name for each in files.of(Unreadable)] == ["app.log.loop"]
    log.unlink()
    append(logs / "app.log.hard", "two\n")
    assert files.turn() == b"two\n"


def test_what_is_no_file_is_left_alone(logs: LogFolder) -> None:
    os.mkfifo(logs.log)
    (logs / "app.log.d").mkdir()
    os.mkfifo(logs / "literal")
    files = logs.follow("app.log*", "literal")
    assert files.turn() == b""
    assert files.said == []
    (logs.log).unlink()
    append(logs.log, "one\n")
    assert files.turn() == b"one\n"
    (logs.log).unlink()
    os.mkfifo(logs.log)
    assert files.turn(10.0) == b""  # folders are listed the later the longer it took
    assert [type(each) for each in files.said] == [Appeared, Deleted]


def test_compressed_files_are_not_read(logs: LogFolder) -> None:
    append(logs / "app.log.1.gz", "whatever")
    (logs / "app.log.2").write_bytes(b"\x1f\x8b\x08\0\0\0")
    files = logs.follow()
    assert files.turn() == b""
    assert files.turn(6.0) == b""
    assert [each.is_left for each in files.of(Compressed)] == [True, True]
    assert files.files.following() == []


def test_names_need_not_be_utf_8(logs: LogFolder) -> None:
    name = os.path.join(os.fsencode(logs.path), b"app.log\xff\xfe")  # noqa: PTH118
    Path(os.fsdecode(name)).write_text("one\n")
    files = logs.follow()
    assert files.turn() == b"one\n"
    assert os.fsencode(next(files.of(Appeared)).followed.path) == name


@pytest.mark.parametrize(
    ("start", "read"),
    [("beginning", b"old\n"), ("end", b""), ("2026-11-20", b""), ("2020-01-01", b"old\n")],
)
def test_where_a_new_input_starts(logs: LogFolder, start: str, read: bytes) -> None:
    log = logs.log
    log.write_text("old\n")
    os.utime(log, (1_700_000_000, 1_700_000_000))
    files = logs.follow(start=start)
    assert files.turn() == read
    append(log, "new\n")
    append(logs / "app.log.later", "later\n")
    assert sorted(files.turn().split()) == [b"later", b"new"]
    append(logs / "app.log.down", "down\n")
    files.restart()
    assert files.turn() == b"down\n"


def test_at_the_end_is_where_the_last_line_ends(logs: LogFolder) -> None:
    log = logs.log
    log.write_text("old\nhalf")
    files = logs.follow(start="end")
    files.look()
    append(log, " and whole\n")
    assert files.turn() == b"half and whole\n"


def test_old_files_are_begun_when_they_are_touched(logs: LogFolder) -> None:
    log = logs.log
    log.write_text("old\n")
    files = logs.follow(ignore_older=3600.0, wall=time.time())
    os.utime(log, (time.time() - 7200, time.time() - 7200))
    assert files.turn() == b""
    files.wall = time.time() - 100_000  # a clock that is set back makes nothing old
    append(log, "new\n")
    assert files.turn(6.0) == b"old\nnew\n"


def test_handles_are_capped(logs: LogFolder) -> None:
    files = logs.follow(open_files=3)
    for number in range(10):
        append(logs / f"app.log.{number}", f"{number}\n")
    assert len(files.turn()) == 20
    handles = [each for each in open_files().values() if each.is_relative_to(logs.path)]
    assert len(handles) == 3
    for number in range(10):
        append(logs / f"app.log.{number}", f"{number}+\n")
    files.look(1.0)
    assert len(files.turn(1.0)) == 30


def test_who_waits_longest_is_first(logs: LogFolder) -> None:
    files = logs.follow()
    for name in "abc":
        append(logs / f"app.log.{name}", f"{name}" * 10)
    files.look()
    read = [files.read_one(files.files.ready()[0], 1) for _ in range(6)]
    assert sorted(read[:3]) == sorted(read[3:]) == [b"a", b"b", b"c"]


def test_inputs_that_change(logs: LogFolder) -> None:
    files = logs.follow("app.log*")
    append(logs.log, "one\n")
    append(logs / "app.log.x", "x\n")
    append(logs / "other", "other\n")
    files.turn()
    other = FileInput("other", "t2", (str(logs / "other"),))
    narrow = FileInput("in", "t", (str(logs / "app.log*"),), exclude=("*.x",))
    said = files.files.reconfigure([narrow, other])
    assert [Path(each.followed.path).name for each in said if isinstance(each, Released)] == [
        "app.log.x"
    ]
    append(logs.log, "two\n")
    append(logs / "app.log.x", "x2\n")
    assert sorted(files.turn().split()) == [b"other", b"two"]
    files.files.reconfigure([FileInput("in", "t", (str(logs / "app.log*"),)), other])
    assert files.turn() == b"x2\n"


def test_an_input_with_another_name_goes_on(logs: LogFolder) -> None:
    files = logs.follow()
    append(logs.log, "one\n")
    files.turn()
    append(logs.log, "two\n")
    files.inputs = [FileInput("renamed", "t", (str(logs / "app.log*"),), start="end")]
    files.restart()
    assert files.turn() == b"two\n"


def test_without_events_everything_is_found_by_scans(logs: LogFolder) -> None:
    files, log = logs.follow(events=False), logs.log
    files.look()
    append(log, "one\n")
    assert files.turn(6.0) == b"one\n"
    files.look(1.0)
    append(log, "two\n")
    files.look(0.6)
    assert files.turn(0.6) == b"two\n"
    log.rename(logs / "app.log.1")
    append(log, "three\n")
    assert files.turn(6.0) == b"three\n"
    assert len(list(files.of(Polling))) == 1
    assert [each.followed.source for each in files.of(Renamed)] == ["s1"]


def test_waiting_ends_with_an_event_or_a_call(logs: LogFolder) -> None:
    files: Files = logs.follow().files
    files.look(0.0)
    files.wait(0.0)
    for wake in (files.wake, lambda: append(logs.log, "one\n")):
        timer = threading.Timer(0.05, wake)
        timer.start()
        started = time.monotonic()
        files.wait(30.0)
        assert time.monotonic() - started < 20.0
        timer.join()


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert read_inputs(tmp_path) == {}
    write_inputs(tmp_path, {"web"}, 100)
    write_inputs(tmp_path, {"web", "caf\u00e9"}, 200)
    assert read_inputs(tmp_path) == {"web": 100, "caf\u00e9": 200}
    write_inputs(tmp_path, {"web"}, 300)
    assert read_inputs(tmp_path) == {"web": 100}
    assert [path.name for path in tmp_path.iterdir()] == ["inputs.json"]


def test_since_when_is_not_known_of_names_alone(tmp_path: Path) -> None:
    """As Penstock 0.1 has them."""
    (tmp_path / "inputs.json").write_text('["web"]')
    assert read_inputs(tmp_path) == {"web": 0}
    write_inputs(tmp_path, {"web", "db"}, 9_000)
    assert read_inputs(tmp_path) == {"web": 0, "db": 9_000}


@pytest.mark.parametrize(
    "damaged", [b"", b"[", b"\xff", b"5", b"[1]", b"[[]]", b'{"web": "1"}', b'{"web": true}']
)
def test_damage_is_no_empty_list(tmp_path: Path, damaged: bytes) -> None:
    """Otherwise every input would begin as a new one does."""
    (tmp_path / "inputs.json").write_bytes(damaged)
    assert read_inputs(tmp_path) is None
    write_inputs(tmp_path, {"web"}, 100)
    assert read_inputs(tmp_path) == {"web": 100}

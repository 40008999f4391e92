"""The administration log: its lines, its rotation, what it does while the disk does not, and how
many refusals it takes."""

import json
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from ground.administration.entries import OK, Change, Kind, Program, Who, read_entry
from ground.administration.log import (
    AdministrationLog,
    AdministrationLogConfig,
    CannotRemember,
    append,
    rotated,
)
from harness.processes.hand_clock import HandClock

ALICE = Who("alice", "10.0.0.7", "CLIENTS", "a-client")
PROGRAM = Program("dc1", "broker 1")
PATIENCE = 30.0


@contextmanager
def opened(
    path: Path, clock: HandClock | None = None, *, file_bytes: int = 10**9, kept_files: int = 10
) -> Iterator[AdministrationLog]:
    config = AdministrationLogConfig(file_bytes=file_bytes, kept_files=kept_files)
    log = AdministrationLog(path, config, PROGRAM, clock=clock or HandClock(0.0))
    try:
        yield log
    finally:
        log.close()


def created(name: str, result: str = OK) -> Change:
    after = {"partitions": "8"}
    return Change(action="create", kind=Kind.TOPIC, name=name, after=after, result=result)


def refused(name: str) -> Change:
    return created(name, result="TOPIC_AUTHORIZATION_FAILED")


def names(path: Path) -> list[str]:
    return [read_entry(line).name for line in path.read_bytes().splitlines()]


def test_a_line_says_who_did_what_when_and_from_where() -> None:
    time = datetime(2026, 11, 22, 10, 10, 11, 250_000, timezone(timedelta(hours=1)))
    assert json.loads(PROGRAM.line(time, ALICE, created("page_views"))) == {
        "time": "2026-11-22T09:10:11.250Z",
        "cluster": "dc1",
        "program": "broker 1",
        "principal": "alice",
        "address": "10.0.0.7",
        "listener": "CLIENTS",
        "client_id": "a-client",
        "action": "create",
        "kind": "topic",
        "name": "page_views",
        "before": {},
        "after": {"partitions": "8"},
        "result": OK,
        "message": "",
        "times": 1,
    }


@pytest.mark.not_quick("writes very many names")
@pytest.mark.parametrize("name", ['"\n{"principal":"bob"}\n', "\ud800", "\x00\x1b[2J", "x" * 10**6])
def test_whatever_a_name_is_it_is_one_short_line(name: str) -> None:
    configs = {f"{name}{number}": name for number in range(1_000)}
    change = Change(
        action="alter", kind=Kind.TOPIC_CONFIG, name=name, before=configs, after=configs
    )
    line = PROGRAM.line(datetime.now(UTC), Who(name, name, name, name), change)
    assert line.count(b"\n") == 1
    assert len(line) < 70_000
    entry = read_entry(line)
    assert (entry.action, entry.kind) == ("alter", "topic_config")


def test_it_is_there_for_its_group_and_not_for_everybody(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with opened(path):
        assert stat.S_IMODE(path.stat().st_mode) & 0o007 == 0


def test_full_files_are_renamed_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with opened(path, file_bytes=600, kept_files=2) as log:  # two entries in each
        for number in range(9):
            log.note(ALICE, created(f"t{number}"))
        assert log.flush(PATIENCE)
    assert names(rotated(path, 2)) == ["t4", "t5"]
    assert names(rotated(path, 1)) == ["t6", "t7"]
    assert names(path) == ["t8"]
    assert len(list(tmp_path.iterdir())) == 3


def test_a_file_that_others_move_or_cut_off_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text('{"time":"2026-')
    with opened(path) as log:
        log.note(ALICE, created("one"))
        assert log.flush(PATIENCE)
        assert path.read_bytes().splitlines()[0] == b'{"time":"2026-'
        path.rename(tmp_path / "moved")
        append(path, Program("", "a command"), ALICE, created("of a command"))
        log.note(ALICE, created("two"))
        assert log.flush(PATIENCE)
    assert names(path) == ["of a command", "two"]


def test_what_cannot_be_written_is_kept_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with opened(folder / "a.log") as log:
        (folder / "a.log").unlink()
        folder.rename(tmp_path / "away")
        for name in ("one", "two"):
            log.note(ALICE, created(name))
        assert not log.flush(0.2)
        folder.mkdir()
        assert log.flush(PATIENCE)
    assert names(folder / "a.log") == ["one", "two"]
    said = [each.message for each in caplog.records]
    assert len([each for each in said if "is not writable" in each]) == 1
    assert len([each for each in said if "is writable again" in each]) == 1


@pytest.mark.not_quick("very many entries")
def test_whoever_notes_waits_for_no_disk(tmp_path: Path) -> None:
    """The file is a pipe that nobody reads."""
    path = tmp_path / "a.log"
    with opened(path) as log:
        path.unlink()
        os.mkfifo(path)
        noting = threading.Thread(
            target=lambda: [log.note(ALICE, created(f"t{number}")) for number in range(20_000)]
        )
        noting.start()
        noting.join(PATIENCE)
        assert not noting.is_alive()
        # Ten thousand wait, and the others are given up.
        aside = path.rename(tmp_path / "pipe")
        read = os.open(aside, os.O_RDONLY | os.O_NONBLOCK)
        assert log.flush(PATIENCE)
        os.close(read)
    assert 9_000 < len(names(path)) <= 10_000


@pytest.mark.parametrize("where", ["missing/a.log", "."])
def test_a_log_that_cannot_be_is_no_secret(tmp_path: Path, where: str) -> None:
    with pytest.raises(CannotRemember, match="administration_log"):
        AdministrationLog(tmp_path / where, AdministrationLogConfig(), PROGRAM)


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "a.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CannotRemember):
        AdministrationLog(tmp_path / "a.log", AdministrationLogConfig(), PROGRAM)
    assert not (tmp_path / "elsewhere").exists()


def test_refusals_that_are_alike_are_told_once_and_then_with_their_number(tmp_path: Path) -> None:
    path, clock = tmp_path / "a.log", HandClock(0.0)
    with opened(path, clock) as log:
        for _ in range(1_000):
            log.note(ALICE, refused("secret"))
        log.note(ALICE, created("done"))
        assert log.flush(PATIENCE)
        assert names(path) == ["secret", "done"]
        clock.now = 61.0
        log.note(ALICE, created("later"))
        assert log.flush(PATIENCE)
    found = [read_entry(line) for line in path.read_bytes().splitlines()]
    assert [each.times for each in found if each.name == "secret"] == [1, 999]


def test_refusals_cannot_push_changes_out(tmp_path: Path) -> None:
    """Whatever is asked for, by however many."""
    path = tmp_path / "a.log"
    with opened(path) as log:
        log.note(ALICE, created("done"))
        for number in range(5_000):
            log.note(Who(f"user-{number % 500}", "10.0.0.8"), refused(f"t{number}"))
        assert log.flush(PATIENCE)
    found = [read_entry(line) for line in path.read_bytes().splitlines()]
    assert len(found) < 500
    assert sum(each.times for each in found) == 5_001  # none is forgotten
    assert {each.kind for each in found[-3:]} == {Kind.OTHERS}


def test_one_person_does_not_take_the_places_of_all(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with opened(path) as log:
        for number in range(5_000):
            log.note(Who("mallory", "10.0.0.8"), refused(f"t{number}"))
        log.note(ALICE, refused("hers"))
        assert log.flush(PATIENCE)
        assert names(path).count("hers") == 1

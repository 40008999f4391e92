"""Files and folders that cannot be read, for a while; and what is asked of the kernel."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.configuration.file_inputs import FileInput, end_of_last_line
from agent.files.happenings import Polling, ReadableAgain, Unreadable
from agent.history.blind_times import Traces, Unwatched
from agent.history.watcher import Mounts, Watcher
from agent.open_files.open_file_limit import Handles
from agent.recognition.file_properties import same_content
from agent.recognition.followed import Followed
from agent.recognition.identity import fingerprint
from tests.agent.files.journalled_files import JournalledFiles, LogFolder, append
from tests.agent.files.scenarios import Scenario, check, scenarios
from tests.agent.nobody import as_nobody, open_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as path:
        yield path


def test_what_is_unreadable_is_said_once_and_read_in_the_end(folder: Path) -> None:
    file, secret = folder / "app.log", folder / "secret"
    file.write_text("one\n")
    file.chmod(0o600 if os.geteuid() == 0 else 0)
    secret.mkdir(mode=0o700 if os.geteuid() == 0 else 0)
    files = JournalledFiles(FileInput("in", "t", (f"{folder}/**/app.log",)))
    with as_nobody():
        for _ in range(3):
            assert files.turn(6.0) == b""
    why = "Permission denied"
    said = sorted((each.path, each.why) for each in files.of(Unreadable))
    assert said == [(str(file), why), (str(secret), why)]
    file.chmod(0o644)
    secret.chmod(0o755)
    with as_nobody():
        assert files.turn(6.0) == b"one\n"
    said = sorted((each.path, "") for each in files.of(ReadableAgain))
    assert said == [(str(file), ""), (str(secret), "")]
    files.close()


def test_a_source_is_not_lost_because_its_file_cannot_be_read(folder: Path) -> None:
    below = folder / "below"
    below.mkdir()
    file = below / "app.log"
    file.write_text("one\n")
    files = JournalledFiles(FileInput("in", "t", (f"{folder}/*/app.log",)))
    assert files.turn() == b"one\n"
    with file.open("a") as log:
        log.write("two\n")
    mode = 0o600 if os.geteuid() == 0 else 0
    for path, hidden, shown in ((file, mode, 0o644), (below, mode, 0o755)):
        path.chmod(hidden)
        files.files.close()
        with as_nobody():
            files.restart_closed()
            for _ in range(3):
                assert files.turn(70.0) == b""
        path.chmod(shown)
    assert files.lost == 0
    with as_nobody():
        assert files.turn(6.0) == b"two\n"
    assert {source for source, _, _ in files.read} == {"s1"}
    files.close()


def barred_mode() -> int:
    return 0o600 if os.geteuid() == 0 else 0


def changed(files: JournalledFiles) -> list[Unwatched]:
    return [each for each in files.unwatched if each.traces is Traces.CHANGED]


@scenarios(
    *(
        Scenario(
            f"a file that is {how} before anybody may read it {restart}",
            "write app.log one; rest 6; mv app.log former; write app.log unseen; bar app.log; "
            f"rest 6; {restart}{then}; turn 6; turn 6; turn 6",
            read,
            ("changed .: *",),
            "app.log",
        )
        for how, then, read in (
            ("deleted", "rm app.log", "one"),
            ("renamed", "mv app.log other", "one"),
            ("written anew", "rm app.log; write app.log three", "one three"),
        )
        for restart in ("", "stop; start; ")
    ),
    *(
        Scenario(
            f"what a folder did not show is unknown if names came or went: {came}",
            "mkdir below; write below/app.log one; turn; bar below; tick; turn 6; "
            f"write below/app.log two; {came}turn 6; show below; turn 6; turn 6",
            "one two",
            said,
            "below/*.log",
            {"events": False},
        )
        for came, said in (
            ("", ()),
            ("write below/new.log unseen; rm below/new.log; ", ("changed below: *",)),
        )
    ),
    Scenario(
        "a new folder that was not open at first is known: it was made, and then its rights set",
        "turn; mkdir below; bar below; turn; show below; turn 6; write below/app.log one; turn 6",
        "one",
        follow="*/app.log",
    ),
    Scenario(
        "a source that may not be read after a start is over when its file is gone",
        "write app.log one; rest; stop; write app.log unseen; bar app.log; start; turn; turn 6; "
        "rm app.log; turn 6; turn 6; turn 6",
        "one",
        ("vanished app.log from 4: *",),
        "app.log",
    ),
)
def test_what_may_not_be_read(folder: Path, scenario: Scenario) -> None:
    logs = LogFolder(folder)
    check(logs, scenario, ignore="[!cv]*", agent=as_nobody)
    logs.close()


def test_a_link_into_a_folder_where_nobody_may_look_is_unreadable(folder: Path) -> None:
    hidden = folder / "hidden"
    (hidden / "pod").mkdir(parents=True)
    append(hidden / "pod/app.log", "one\n")
    (folder / "logs").mkdir()
    (folder / "logs/pod").symlink_to(hidden / "pod")
    hidden.chmod(barred_mode())
    with as_nobody():
        files = JournalledFiles(FileInput("in", "t", (f"{folder}/logs/*/app.log",)))
        files.turn()
        assert [each.path for each in files.of(Unreadable)] == [f"{folder}/logs/pod/app.log"]
        assert files.files.barred == {"t"}
    hidden.chmod(0o755)
    with as_nobody():
        assert files.turn(6.0) == b"one\n"
        assert files.files.barred == set()
    files.close()


def test_a_handle_that_fails_is_unreadable_until_it_is_not(tmp_path: Path) -> None:
    """As with a device that is gone: here a handle that does not read."""
    file = tmp_path / "app.log"
    file.write_text("one\n")
    files = JournalledFiles(FileInput("in", "t", (str(file),)))
    files.look()
    followed = files.files.ready()[0]
    assert followed.fd is not None
    write_only = os.open(file, os.O_WRONLY)
    os.dup2(write_only, followed.fd)
    os.close(write_only)
    with pytest.raises(OSError):
        followed.read(10)
    files.look()
    assert [(each.path, each.why) for each in files.of(Unreadable)] == [
        (str(file), "Bad file descriptor")
    ]
    assert files.files.ready() == []
    assert files.turn(6.0) == b"one\n"
    assert len(list(files.of(ReadableAgain))) == 1
    files.close()


def test_a_file_that_fails_before_it_is_clear_what_it_is(tmp_path: Path) -> None:
    """It is no source yet, so that nobody else knows of it."""
    files = JournalledFiles(FileInput("in", "t", (f"{tmp_path}/*.log",)))
    for name in ("a.log", "b.log"):
        append(tmp_path / name, "one\n")
    assert files.turn() == b"one\n"
    (unclear,) = files.files._shared.attention.unclear
    assert unclear.fd is not None
    write_only = os.open(unclear.current_path, os.O_WRONLY)
    os.dup2(write_only, unclear.fd)
    os.close(write_only)
    assert files.turn(2.5) == b""
    assert files.files.barred == {"t"}
    assert files.turn(6.0) == b"one\n"
    assert files.files.barred == set()
    assert changed(files) == []
    files.close()


def test_same_content_looks_at_the_end_too(tmp_path: Path) -> None:
    one, other = tmp_path / "1", tmp_path / "2"
    content = os.urandom(1_000_000)
    one.write_bytes(content)
    other.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with one.open("rb") as first, other.open("rb") as second:
        assert same_content(first.fileno(), second.fileno(), 999_999)
        assert not same_content(first.fileno(), second.fileno(), 1_000_000)
        assert not same_content(first.fileno(), second.fileno(), 1_000_001)
        assert same_content(first.fileno(), second.fileno(), 0)


@pytest.mark.parametrize(
    ("content", "end"),
    [
        (b"one\ntwo\n", 8),
        (b"one\nhalf", 4),
        (b"half", 4),
        ("one\ntwo\n".encode("utf-16-le"), 16),
        ("one\nhalf".encode("utf-16-le"), 8),
        ("one\nhalf".encode("utf-16-be"), 8),
        (b"x" * 100_000, 100_000),
    ],
)
def test_where_the_last_line_ends(tmp_path: Path, content: bytes, end: int) -> None:
    (tmp_path / "log").write_bytes(content)
    with (tmp_path / "log").open("rb") as file:
        assert end_of_last_line(file.fileno(), len(content)) == end


def test_the_handles_used_last_stay(tmp_path: Path) -> None:
    handles = Handles(1)
    held = []
    for name in "abc":
        path = tmp_path / name
        path.write_text("x")
        fd, status = handles.open(str(path))
        held.append(Followed(str(path), (status.st_dev, status.st_ino), status, handles))
        handles.hold(held[-1], fd)
    assert [each.fd is None for each in held] == [True, False, False]
    held[1].deleted_at = 1.0
    assert held[0].open() is not None
    held[2].open()
    assert [each.fd is None for each in held] == [False, False, False]  # one has no name
    for each in held:
        handles.close(each)


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", Path("/dev/null")):
        with pytest.raises(OSError, match="not a regular file"):
            Handles(1).open(str(path))


def test_a_fingerprint_is_that_of_a_kibibyte_at_most() -> None:
    assert fingerprint(b"x" * 2000) == fingerprint(b"x" * 1024)
    assert fingerprint(b"x" * 1023) != fingerprint(b"x" * 1024)
    assert fingerprint(b"").size == 0


def test_watches_are_of_files_and_not_of_names(tmp_path: Path) -> None:
    watcher, path = Watcher(), tmp_path / "app.log"
    path.write_text("one\n")
    with path.open("a") as file:
        path.rename(tmp_path / "other")
        path.write_text("another file\n")
        watch, why = watcher.watch_file(file.fileno(), 0)
        assert (watch is None, why) == (False, "")
        path.write_text("yet another\n")
        watcher.collect()
        assert watcher.grown == set()
        file.write("two\n")
        file.flush()
        file.write("three\n")
    watcher.collect()
    assert watcher.grown == {watch}
    watcher.close()
    watcher.wake()


def test_folders_that_are_not_there_are_not_watched(tmp_path: Path) -> None:
    watcher = Watcher()
    assert watcher.watch_folder(str(tmp_path / "nowhere")) == ""
    assert watcher.watch_folder(str(tmp_path)) == ""
    (tmp_path / "link").symlink_to(tmp_path)
    assert watcher.watch_folder(str(tmp_path / "link")) == ""
    (tmp_path / "new").write_text("")
    watcher.collect()
    assert watcher.changed == {str(tmp_path), str(tmp_path / "link")}
    watcher.unwatch_folders_but({str(tmp_path)})
    watcher.changed.clear()
    (tmp_path / "newer").write_text("")
    watcher.collect()
    assert watcher.changed == {str(tmp_path)}
    watcher.close()


def test_a_folder_that_may_be_entered_and_not_listed_is_polled(folder: Path) -> None:
    """It cannot be watched, and a file whose name is known can be read in it."""
    below = folder / "below"
    below.mkdir()
    append(below / "app.log", "one\n")
    below.chmod(0o711 if os.geteuid() == 0 else 0o311)
    with as_nobody():
        files = JournalledFiles(FileInput("in", "t", (f"{below}/app.log",)))
        assert files.turn() == b"one\n"
        said = [(each.path, each.why) for each in files.of(Polling)]
        assert said == [(str(below), "no permission to list it")]
        files.close()


def test_file_systems_without_events(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "29 1 8:1 / / rw - ext4 /dev/vda rw\n"
        "30 29 0:50 / /mnt rw,relatime shared:1 - nfs4 host:/x rw\n"
        "31 29 0:51 / /ssh rw - fuse.sshfs host rw\n"
    )
    mounts = Mounts(table)
    found = [
        mounts.without_events(os.makedev(*each)) for each in ((8, 1), (0, 50), (0, 51), (9, 9))
    ]
    assert found == ["", "nfs4", "fuse.sshfs", ""]
    assert Mounts().without_events(tmp_path.stat().st_dev) == ""

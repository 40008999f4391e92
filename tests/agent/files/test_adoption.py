"""What an agent had open outlives it: kept by the store of `penstock up`, handed to the next."""

import gzip
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.configuration.file_inputs import FileInput
from agent.files.happenings import Appeared, Deleted, Ended, Truncated
from agent.history.blind_times import Traces
from penstock.up.descriptor_store import ProgramDescriptors
from tests.agent.files.journalled_files import JournalledFiles, LogFolder, append, kept_files, turns
from tests.agent.files.scenarios import Scenario, Steps, check, scenarios

QUEUED = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
ONE = "write app.log one; rest 0.3; "
COME_AND_GO = (
    "mv app.log app.log.1; write app.log x; once app.log; "
    "mv app.log app.log.2; rm app.log.2; write app.log three; once app.log; "
)
MISSED = "changed .: *came and went between two looks: "
EMPTIED = "may have been emptied: app.log"
FIRST = "write app.log first; turns; stop; "


def come_and_go(name: str, to: str = "") -> str:
    return f"write {name} x; " + (f"mv {name} {to}; rm {to}; " if to else f"rm {name}; ")


@scenarios(
    *(
        Scenario(
            f"new files that were renamed, once and twice, are there under names that {follow} "
            "means or not",
            f"{ONE}stop; mv app.log app.log.3; write app.log two; once app.log; mv app.log app.2; "
            "write app.log three; once app.log; mv app.log app.log.1; mv app.log.1 app.1; "
            "write app.log four; once app.log; start; turns; write app.1 3; turns",
            "one two three four 3",
            (),
            follow,
        )
        for follow in ("app.log*", "app.log")
    ),
    Scenario(
        "a new file that was renamed, and another one has its name now, which is not read",
        f"{ONE}stop; mv app.log 1; write app.log unseen; mv app.log 2; write x x; mv x 2; "
        "start; turns",
        "one",
        (f"{MISSED}app.log",),
        "app.log",
    ),
    Scenario(
        "what comes and goes before the first look: the queue is taken over, nothing is listed",
        f"{ONE}stop; start; mv app.log app.log.1; write app.log unseen; rm app.log; turns",
        "one",
        ("changed .: *",),
        "app.log",
    ),
    *(
        # It leaves no trace: the file is as it would be if it had only grown, or never had. That is
        # all that the history of names leaves open, so it is said without a demand, however long.
        Scenario(
            f"a new file of {text or 'nothing'} may have been emptied in {seconds} s",
            f"{ONE}stop; mv app.log app.log.1; write app.log unseen; set app.log {text}; "
            f"for 60 app.log; away {seconds}; start; turns",
            f"one {text}",
            (f"brief .: no look for {seconds} s; *",),
            "app.log",
        )
        for text in ("two", "")
        for seconds in (3, 3600)
    ),
    *(
        Scenario(
            f"{follow} may have been emptied again after it was copied and truncated, {seconds} s",
            "write app.log one*500; rest 0.3; stop; cp app.log app.log.1; once app.log.1; "
            f"set app.log unseen; set app.log two; for {seconds} app.log; start; turns",
            "one*500 two",
            (f"brief .: *{EMPTIED}",),
            follow,
        )
        for follow in ("app.log", "app.log*")
        for seconds in (4, 60)
    ),
    Scenario(
        "a new file was copied and emptied within a moment: the copy tells",
        "turns; stop; away 2; write app.log unseen; tick; cp app.log app.log.1; set app.log two; "
        "start; turns",
        "two",
        (f"changed .: *{EMPTIED}",),
        "app.log",
    ),
    Scenario(
        "a new file was copied and not emptied",
        "turns; stop; away 2; write app.log two; tick; cp app.log app.log.1; start; turns",
        "two",
        ("brief .: *",),
        "app.log",
    ),
    *(
        Scenario(
            f"a finished file was moved there from {where}, where nobody looks",
            f"mkdir else; {ONE}stop; write {where} two three; for 60 {where}; "
            f"mv app.log app.log.1; mv {where} app.log; away 60; start; turns",
            "one two three",
            follow="app.log",
        )
        for where in ("new", "else/new")
    ),
    *(
        Scenario(
            f"a file that was begun {then or 'whole '}may have been emptied, however soon",
            f"write app.log one; turns; stop; rm app.log; write app.log two; {then}start; turns",
            read,
            ("brief .: no look for less than a second; *",),
            "app.log",
        )
        for then, read in (("truncate app.log; ", "one"), ("", "one two"))
    ),
    Scenario(
        "what is there was not missed",
        f"{FIRST}write app.log.2 second; once app.log.2; mv app.log app.log.1; rm app.log.1; "
        "start; turns",
        "first second",
    ),
    *(
        Scenario(
            f"came and went: {name} {to}",
            f"{FIRST}{come_and_go(name, to)}start; turns",
            "first",
            (f"{MISSED}app.log.7",),
        )
        for name, to in (("app.log.7", "other"), ("other", "app.log.7"))
    ),
    Scenario(
        "what is not meant may come and go",
        f"{FIRST}{come_and_go('other')}start; turns; stop; {come_and_go('other')}start; turns",
        "first",
    ),
    *(
        Scenario(
            f"what nobody knew was renamed to a name that {follow} means or not",
            "touch app.log; turns; stop; forget new; write app.log one; once app.log; "
            "mv app.log app.log.1; start; turns",
            read,
            said,
            follow,
        )
        for follow, read, said in (("app.log*", "one", ()), ("app.log", "", ("changed .: *",)))
    ),
    Scenario(
        "an archive that was deleted, as every rotation deletes the oldest one",
        "set x old; gzip x app.log.1.gz; gzip x app.log.2.gz; turns; stop; rm app.log.2.gz; "
        "mv app.log.1.gz app.log.2.gz; start; turns",
        "",
    ),
    *(
        # What came and went in it before it was watched, no event tells; nor, where the folder
        # above is not watched, whether it is the first that was made.
        Scenario(
            f"a folder that was made anew, {follow}, {what or 'empty'}",
            f"mkdir logs; turns; stop; mv logs old; mkdir logs; {what}start; turns",
            "",
            said,
            follow,
        )
        for follow, what, said in (
            ("logs/*.log *.log", "", ()),
            ("logs/*.log", "", ("changed logs: *",)),
            (
                "logs/*.log *.log",
                "sleep 0.05; write logs/app.log x; rm logs/app.log; ",
                ("changed logs: *",),
            ),
            (
                "logs/*.log",
                "sleep 0.05; write logs/app.log x; rm logs/app.log; ",
                ("changed logs: *",),
            ),
        )
    ),
    Scenario(
        "a folder that came and went with a file that nobody has seen; another one has its place",
        "mkdir logs; turns; stop; rmtree logs; mkdir logs; write logs/app.log x; "
        "rmtree logs; mkdir logs; write logs/app.log 3; start; turns",
        "3",
        ("changed .: came and went between two looks: logs", "brief logs: *"),
        "logs/app.log app.log",
    ),
)
def test_while_no_agent_ran(logs: LogFolder, store: ProgramDescriptors, scenario: Scenario) -> None:
    check(logs, scenario, store=store)


@scenarios(
    Scenario(
        "which was not the first; what was read is said by the next time",
        f"{COME_AND_GO}die; start; turns 20; stop; mv app.log app.log.3; write app.log four; "
        "once app.log; start; turns 20",
        "one three four",
        ("changed .: *",),
    ),
    Scenario(
        "which was the first",
        f"stop; {COME_AND_GO}start; die; start; turns 20",
        "one three",
        ("changed .: *",),
    ),
    Scenario(
        "before the first",
        f"stop; {COME_AND_GO}start; stop; start; turns 20",
        "one three",
        ("changed .: *",),
    ),
    Scenario(
        "and what had come went before the next start",
        "mv app.log app.log.1; write app.log x; die; mv app.log app.log.2; write app.log three; "
        "once app.log; start; turns 20",
        "one x three",
    ),
    Scenario(
        "that said of growth alone",
        "write app.log two; die; mv app.log app.log.1; write app.log three; once app.log; "
        "start; turns 20",
        "one two three",
    ),
    # Listing is put off where it takes long; that look is written down all the same.
    Scenario(
        "before a folder was listed",
        "delay 10; mv app.log app.log.1; write app.log x; turn 0.3; stop; "
        "write new three; mv new app.log; start; turns 20",
        "one three",
        ("changed .: *",),
    ),
    *(
        # The queue is worth nothing without what was read of it, nor that without the queue.
        Scenario(
            f"the {kind} are lost",
            f"stop; forget {kind}; mv app.log app.log.1; write app.log two; start; turns 20; "
            "stop; mv app.log app.log.2; write app.log three; once app.log; start; turns 20",
            "one two three",
            ("changed .: *",),
        )
        for kind in ("events", "history")
    ),
)
def test_killed_at_a_look(logs: LogFolder, store: ProgramDescriptors, scenario: Scenario) -> None:
    """What was read of the queue is not in it any more, and its consequences are nowhere."""
    script = f"{ONE}{scenario.script}"
    check(logs, scenario._replace(script=script, follow="app.log"), ignore="brief *", store=store)


@pytest.mark.not_quick("very many files")
@pytest.mark.parametrize("is_killed", [False, True])
def test_the_kernel_could_not_keep_all_that_happened(
    logs: LogFolder, files: JournalledFiles, is_killed: bool
) -> None:
    """While no agent ran; or the look is lost at which it said so."""
    steps = Steps(logs, files)
    steps.play(f"{ONE}" + ("" if is_killed else "stop"))
    one, other = logs / "a", logs / "b"
    one.touch()
    for _ in range(QUEUED // 4 + 1):  # two events each way
        one.rename(other)
        other.rename(one)
    steps.play(("die; " if is_killed else "") + "start; turns 20")
    assert [each.traces for each in files.unwatched] == [Traces.CHANGED]


def test_a_pause_between_two_clocks_hides_nothing(
    logs: LogFolder, store: ProgramDescriptors
) -> None:
    """As when the process waits for a processor after it read the first of them."""
    pause = 0.0

    def boot_then_wait() -> float:
        now = time.monotonic()
        time.sleep(pause)
        return now

    files = logs.follow("app.log", store=store, boot=boot_then_wait)
    steps = Steps(logs, files)
    steps.play("turns; stop; write app.log two; truncate app.log")
    pause = 0.1
    steps.play("start; turns")
    (said,) = files.unwatched
    assert (said.traces, said.path) == (Traces.BRIEF, str(logs.path))


def start_again(files: JournalledFiles, count: int = 6) -> None:
    files.restart_closed()
    turns(files, count)


def test_renamed_compressed_deleted_and_made_anew(
    log: Path, files: JournalledFiles, store: ProgramDescriptors
) -> None:
    append(log, "one\n")
    turns(files)
    assert files.text == b"one\n"
    files.crash()
    append(log, "two\n")
    rotated = log.rename(f"{log}.1")
    Path(f"{log}.1.gz").write_bytes(gzip.compress(rotated.read_bytes()))
    rotated.unlink()
    append(log, "three\n")
    start_again(files)
    assert sorted(files.text.split()) == [b"one", b"three", b"two"]
    assert files.lost == 0
    assert len({source for source, _, _ in files.read}) == 2
    assert len(list(files.of(Deleted))) == 1
    turns(files, 80)
    (ended,) = files.of(Ended)
    assert (ended.followed.progress.position, ended.followed.unread) == (8, 0)
    assert len(kept_files(store)) == 1, "what is over takes no room on the disk"


def test_a_file_that_was_empty_when_the_agent_died(
    log: Path, files: JournalledFiles, store: ProgramDescriptors
) -> None:
    log.touch()
    turns(files)
    assert not files.journal
    assert [name.split(".")[1] for name in kept_files(store)] == ["new"]
    files.crash()
    append(log, "first words\n")
    log.rename(log.with_name("elsewhere")).unlink()
    start_again(files)
    assert files.text == b"first words\n"
    assert [each.followed.path for each in files.of(Appeared)] == [str(log)]
    assert [name.split(".")[1] for name in kept_files(store)] == ["file"], "now it is a source"


def test_truncated_while_nobody_looked_and_then_deleted(log: Path, files: JournalledFiles) -> None:
    append(log, "old and long\n")
    turns(files)
    files.crash()
    log.write_text("new\n")
    log.unlink()
    start_again(files)
    assert files.text == b"old and long\nnew\n"
    assert len(list(files.of(Truncated))) == 1


@pytest.mark.parametrize(("topics", "copies"), [("tu", 2), ("tt", 1)])
def test_two_inputs_follow_one_file(
    log: Path, store: ProgramDescriptors, topics: str, copies: int
) -> None:
    names = "one", "other"
    inputs = [
        FileInput(name, topic, (str(log),)) for name, topic in zip(names, topics, strict=True)
    ]
    files = JournalledFiles(*inputs, store=store)
    append(log, "first\n")
    turns(files)
    files.crash()
    append(log, "second\n")
    log.unlink()
    start_again(files)
    assert files.text.count(b"first\n") == files.text.count(b"second\n") == copies
    files.close()


def test_an_input_that_comes_later_still_gets_its_files(log: Path, files: JournalledFiles) -> None:
    inputs = files.inputs
    append(log, "first\n")
    turns(files)
    files.crash()
    append(log, "second\n")
    log.unlink()
    files.inputs = ()
    start_again(files)
    files.files.reconfigure(inputs)
    turns(files)
    assert files.text == b"first\nsecond\n"


def test_the_data_directory_was_deleted(
    log: Path, files: JournalledFiles, store: ProgramDescriptors, caplog: pytest.LogCaptureFixture
) -> None:
    append(log, "first\n")
    turns(files)
    (before,) = kept_files(store)
    files.crash()
    append(log, "second\n")
    log.unlink()
    files.journal.clear()
    files.agent_id = "ABCDEFGHIJ0123456789"
    start_again(files)
    assert files.text == b"first\n", "it is nobody's: what of it was shipped nobody knows"
    assert before not in kept_files(store)
    (line,) = [each for each in caplog.messages if "not in this journal" in each]
    assert line.endswith("files=3"), "the file, the queue, and what was read of that"


def test_a_source_that_has_ended_is_not_begun_again(
    log: Path, files: JournalledFiles, store: ProgramDescriptors
) -> None:
    append(log, "first\n")
    turns(files)
    kept = {name: os.dup(fd) for name, fd in store.kept().items()}
    log.unlink()
    turns(files, 80)
    assert not files.journal
    assert not kept_files(store)
    files.crash()
    for name, fd in kept.items():  # as if the store had not heard of the end
        store._kept.setdefault(name, fd)
    start_again(files)
    assert files.text == b"first\n"
    assert not kept_files(store)


def test_a_deleted_file_is_not_held_longer_for_each_restart(
    logs: LogFolder, store: ProgramDescriptors
) -> None:
    """Its quiet time goes on: files that were read to their ends do not pile up."""
    files = logs.follow("app.log", store=store, wall=time.time())
    append(logs.log, "one\n")
    turns(files)
    logs.log.unlink()
    turns(files, 2)
    for _ in range(4):
        files.crash()
        assert files.wall is not None
        files.wall += 4.0
        start_again(files, 2)
    assert len(list(files.of(Ended))) == 1
    assert kept_files(store) == []


def test_the_position_is_written_down_when_names_change_and_at_no_other_look(
    logs: LogFolder,
) -> None:
    """Also after the kernel lost events, and where a link to a watched folder goes."""
    (logs / "logs").mkdir()
    (logs / "link").symlink_to(logs / "logs")
    files = logs.follow("*/app.log*")
    log, other = logs / "logs" / "app.log", logs / "logs" / "app.log.0"
    append(log, "one\n")
    append(other, "one\n")
    turns(files)

    def written(act: Callable[[], object]) -> int:
        act()
        turns(files, 20)
        before = files.positions
        turns(files, 20)
        append(other, "two\n")
        turns(files, 20)
        assert files.positions == before, "nothing but a file has changed"
        return before

    def lose_events() -> None:
        files.files._shared.watcher.overflowed = True

    begun = written(lambda: None)
    renamed = written(lambda: log.rename(f"{log}.1"))
    unlinked = written((logs / "link").unlink)
    assert begun < renamed < unlinked < written(lose_events)

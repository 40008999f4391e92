"""Names that come and go between two looks."""

import bz2
import os
from pathlib import Path

import pytest

from agent.history.blind_times import Traces
from penstock.up.descriptor_store import ProgramDescriptors
from tests.agent.files.journalled_files import (
    LogFolder,
    append,
    of_folders,
    of_sources,
    rest,
    settle,
)
from tests.agent.files.scenarios import Scenario, check, scenarios

MISSED = "changed .: came and went between two looks: app.log"
EMPTIED = "may have been emptied: app.log"
# As a rotator does with a file that is not to be renamed; the copy is gone.
COPY_AND_COMPRESS = (
    "cp2 app.log app.log.1; truncate app.log; gzip app.log.1 app.log.1.gz; rm app.log.1"
)
SWITCH = "link {0} new; mv new app.log"  # so that it never lacks
SOON = "rest; touch empty.log; write app.log unseen; tick; tick; set app.log two; away {}; settle"


@scenarios(
    Scenario(
        "a name that comes and goes between two looks",
        "write app.log one; rest; write app.log.9 unseen; rm app.log.9; write x y; rm x; turn",
        "one",
        (f"{MISSED}.9",),
    ),
    Scenario(
        "a link that is switched twice between two looks",
        "mkdir s; write s/1 1; link s/1 app.log; rest; "
        f"write s/2 unseen; {SWITCH.format('s/2')}; write s/3 3; {SWITCH.format('s/3')}; settle",
        "1 3",
        (MISSED,),
        "app.log",
    ),
    Scenario(
        "a link that is switched while the agent is frozen",
        "mkdir s; write s/1 one; link s/1 app.log; rest; "
        f"write s/2 unseen; {SWITCH.format('s/2')}; set s/2 two; for 60 s/2; away 6; settle",
        "one two",
        (f"changed .: *{EMPTIED}",),
        "*.log",
    ),
    Scenario(
        "a copy of which the archive is read",
        f"write app.log one; rest; write app.log two; {COPY_AND_COMPRESS}; write app.log 3; settle",
        "one two 3",
        counts={"unpacked": 1},
    ),
    *(
        Scenario(
            f"a copy of which the archive is another file's, {size}",
            "write app.log one*500; rest; cp2 app.log app.log.1; truncate app.log; "
            f"write other {text}; gzip other app.log.1.gz; rm app.log.1; settle",
            "one*500",
            ("truncated app.log from 2000: *", f"{MISSED}.1"),
        )
        for size, text in (("larger", "another*1000"), ("smaller", "x"))
    ),
    Scenario(
        "two files of the name of which an archive is read: it is the last one's",
        "write app.log one; rest; write app.log.1 unseen; rm app.log.1; "
        f"{COPY_AND_COMPRESS}; settle",
        "one",
        (f"{MISSED}.1",),
        counts={"unpacked": 1},
    ),
    Scenario(
        "a name that comes and goes while an archive is read",
        f"write app.log one; rest; write app.log two; {COPY_AND_COMPRESS}; look; look; "
        "write app.log.1 unseen; rm app.log.1; settle",
        "one two",
        (f"{MISSED}.1",),
    ),
    Scenario(
        "a chain of renames between two looks hides nothing",
        "write app.log 1; rest; mv app.log app.log.1; write app.log 2; "
        "mv app.log.1 app.log.2; mv app.log app.log.1; write app.log 3; "
        "mv app.log.2 app.log.3; mv app.log.1 app.log.2; mv app.log app.log.1; write app.log 4; "
        "settle",
        "1 2 3 4",
    ),
    Scenario(
        "a frozen agent without notice of changes: the folders' times tell",
        "write app.log one; rest 6; away 60; turn 6; "
        "away 60; write app.log.9 unseen; rm app.log.9; turn 6",
        "one",
        ("unchanged .: *", "changed .: *suspended for 60 s*"),
        options={"events": False},
    ),
    Scenario(
        "a new file may have been emptied while the agent was frozen, and one that was empty; "
        "one that was moved in, or is older, says nothing",
        "write app.log one; write older.log another; touch empty.log; rest; mv app.log app.log.1; "
        "write app.log unseen; write new all; set app.log two; "
        "write older.log two; write empty.log two; for 60 app.log new empty.log; "
        "away 6; mv new moved.log; ln older.log linked.log; settle",
        "one another two two two all",
        (f"changed .: no look for 6 s; *{EMPTIED}, empty.log",),
        "*.log",
    ),
    Scenario(
        "nobody looked for a moment", SOON.format(0.5).replace("unseen", "x"), "two", (), "*.log"
    ),
    Scenario("nobody looked for a while", SOON.format(4), "two", (f"brief *{EMPTIED}",), "*.log"),
    Scenario("nobody looked for long", SOON.format(6), "two", (f"changed *{EMPTIED}",), "*.log"),
    Scenario(
        "a new file has the name that one had which is held open, until the folder is listed",
        "write app.log one; rest; rm app.log; rest; delay; "
        "write app.log unseen; turn; rm app.log; settle",
        "one",
        (MISSED,),
        "app.log",
    ),
    *(
        Scenario(
            f"a finished file that {what} had a name that is meant between two looks only",
            f"write new x; write newer newer; rest; mv new app.log; {then}mv newer app.log; settle",
            "newer",
            (MISSED,),
            "app.log",
        )
        for what, then in (("lies there", "mv app.log app.log.1; "), ("is gone", ""))
    ),
    Scenario(
        "finished files that are renamed into place",
        "rest; write 0.tmp 0; mv 0.tmp 0.log; turn; write 1.tmp 1; turn; mv 1.tmp 1.log; turn; "
        "write 2.tmp 2; mv 2.tmp 2.log; turn; settle",
        "0 1 2",
        follow="*.log",
    ),
    *(
        Scenario(
            f"a folder is moved to {place} with a file that is new{again and ', and made'}",
            f"mkdir aside; mkdir shop; rest; write shop/app.log x; mv shop {place}; {again}settle",
            f"{read} {again and 'new'}",
            said,
            "*/app.log",
        )
        for place, read, said in (
            ("shop-2", "x", ()),
            ("aside/shop", "", ("changed shop: came and went between two looks: app.log",)),
        )
        for again in ("", "mkdir shop; write shop/app.log new; ")
    ),
    Scenario(
        "a folder is made just before a scan, which stops watching the one above it",
        "rest; mkdir shop; write shop/app.log one; turn 6; settle",
        "one",
        follow="shop/*.log",
    ),
    *(
        Scenario(
            f"a new file was copied to {copy} and emptied before anything of it was read",
            "rest; write app.log unseen; write other.log 1; tick; "
            f"cp app.log {copy}; cp other.log {copy.replace('app', 'other')}; "
            "set app.log one; write other.log two; away 1.5; settle",
            "1 one two",
            (f"changed .: *{EMPTIED}",),
            "app.log other.log",
        )
        for copy in ("app.log.1", "app.1.log", "app.log-TODAY")
    ),
)
def test_between_two_looks(logs: LogFolder, scenario: Scenario) -> None:
    check(logs, scenario)


def test_a_link_was_switched_while_no_agent_ran(logs: LogFolder, store: ProgramDescriptors) -> None:
    """It was written to for longer than a moment, and may have been emptied."""
    switched = Scenario(
        "",
        "mkdir s; write s/1 one; link s/1 app.log; rest; stop; away 6; "
        f"write s/2 unseen; {SWITCH.format('s/2')}; set s/2 two; for 60 s/2; start; settle",
        "one two",
        (f"changed .: *{EMPTIED}",),
        "app.log",
    )
    check(logs, switched, ignore="brief *", store=store)


def test_many_names_that_come_and_go_between_two_looks(logs: LogFolder) -> None:
    """They are one statement for each folder."""
    (logs / "a").mkdir()
    files = logs.follow("*", "a/*")
    rest(files)
    for number in range(50):
        (logs / f"{number:02}").touch()
        (logs / f"{number:02}").unlink()
    (logs / "a" / "app.log").touch()
    (logs / "a" / "app.log").unlink()
    files.turn()
    above, below = files.unwatched
    names = "00, 01, 02, 03, 04 and 45 others"
    assert above.reason == f"came and went between two looks: {names}"
    assert below.reason == "came and went between two looks: app.log"
    assert (above.path, below.path) == (str(logs.path), str(logs / "a"))


@pytest.mark.not_quick("packs and unpacks megabytes")
@pytest.mark.parametrize("is_its", [False, True])
def test_a_copy_of_which_the_archive_is_sought_for_long(logs: LogFolder, is_its: bool) -> None:
    """It takes several looks to find out whether anything is missed: what is random and packed so
    well is unpacked slowly."""
    files, log = logs.follow(), logs.log
    append(log, os.urandom(1_500_000).hex() + "\n")
    rest(files)
    while files.read_some():
        pass
    content = log.read_bytes() if is_its else log.read_bytes()[:-9] + b"different"
    copy = logs / "app.log.1"
    copy.touch()
    os.truncate(log, 0)
    (logs / "app.log.1.bz2").write_bytes(bz2.compress(content))
    copy.unlink()
    files.look()
    assert files.files.undecided
    assert files.unwatched == []
    while files.files.undecided:
        files.look()
    said = [each.reason for each in of_folders(files)]
    assert said == ([] if is_its else ["came and went between two looks: app.log.1"])
    assert len(of_sources(files)) == (not is_its)


@pytest.mark.not_quick("very many files")
def test_when_the_kernel_could_not_keep_all_that_happened(logs: LogFolder) -> None:
    files = logs.follow()
    append(logs.log, "one\n")
    rest(files)
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    (logs / "app.log.9").touch()
    for number in range(most // 2 + 2):
        (logs / f"app.log.{9 + number % 2}").rename(logs / f"app.log.{10 - number % 2}")
    files.turn()
    assert Traces.CHANGED in {each.traces for each in files.unwatched}
    assert "queue overflowed" in files.unwatched[0].reason


def test_very_many_new_files_that_go_before_they_are_listed(logs: LogFolder) -> None:
    files = logs.follow("*.log", boot=lambda: 0.0)  # however long it takes, it does not stand still
    rest(files)
    files.files._next_listing = files.now + 1  # as after a folder that took long
    paths = [logs / f"{number:05}.log" for number in range(1_500)]
    for log in paths:
        log.touch()
    files.turn()
    for log in paths:
        log.unlink()
    settle(files)
    assert any("00000.log" in each.reason for each in files.unwatched)

"""Times in which nobody looked, and what folders tell of them afterwards."""

import os
import shutil
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.files.listing import Listing, Survey
from agent.files.unwatched import Folders, KnownFiles, blind_statements
from agent.history.blind_times import (
    MOST_FOLDERS,
    NOT_KNOWN,
    NOWHERE,
    Blind,
    Period,
    Stamp,
    Traces,
)
from agent.history.clock_setting import ClockSetting
from tests.agent.files.journalled_files import (
    LogFolder,
    append,
    of_folders,
    rest,
    settle,
    written_for,
)
from tests.agent.files.scenarios import Scenario, Steps, check, scenarios

UNCHANGED, CHANGED = "unchanged .: *", "changed .: *"
EMPTIED = "may have been emptied: app.log"
LONG = "tick; turn 6; " * 4
SHOPS = "mkdir a; mkdir b; write a/app.log a; write b/app.log b; rest; stop; "
# A source for the second time, of which no byte was seen.
EMPTY = "write app.log one*500; rest; set app.log; rest; "


@scenarios(
    Scenario("the first start has no blind time", "write app.log one; settle", "one"),
    Scenario(
        "nothing came or went, though a file has grown",
        "write app.log one; rest; stop; write app.log two; start; turn",
        "one two",
        (UNCHANGED,),
    ),
    Scenario(
        "files were rotated: something may have come and gone all the same",
        "write app.log one; write app.log.1 older; gzip app.log app.log.9.gz; rest; stop; "
        "mv app.log.1 app.log.4; mv app.log app.log.2; write app.log x; write app.log.1 y; start; "
        "turn",
        "one older x y",
        ("* renamed: app.log to app.log.2, app.log.1 to app.log.4; new: app.log, app.log.1; *",),
    ),
    Scenario(
        "folders come and go, and it is said once",
        f"{SHOPS}mkdir c; write c/app.log c; rmtree b; start; settle; rest; stop; start; rest",
        "a b c",
        (
            CHANGED,
            "changed b: *the folder is gone*",
            "changed c: *the folder is new*",
            "unchanged a: *",
            "vanished b/app.log from 2: *",
            *("unchanged *",) * 3,
        ),
        "*/app.log",
    ),
    Scenario(
        "a folder came and went: what is above it shows that",
        "rest; stop; mkdir shop; write shop/app.log unseen; rmtree shop; start; turn",
        "",
        ("changed shop: *",),
        "shop/app.log",
    ),
    Scenario(
        "a file of which nothing was read may have been emptied; a moment is too short for that",
        "touch app.log; touch brief.log; touch idle.log; write known.log one; rest; stop; "
        "write app.log unseen; set app.log two; set brief.log two; write known.log two; "
        "for 10 app.log known.log; start; settle",
        "one two two two",
        (f"changed .: *{EMPTIED}",),
        "*.log",
    ),
    *(
        Scenario(
            f"an empty source may have been emptied again while no agent ran, {seconds} s",
            f"{EMPTY}stop; write app.log unseen; set app.log two; for {seconds} app.log; "
            f"start; settle; rest; stop; write app.log three; for {2 * seconds} app.log; "
            "start; settle",
            "one*500 two three",
            ("truncated *", f"{traces} .: *{EMPTIED}", UNCHANGED),
            "app.log",
        )
        for seconds, traces in ((4, "brief"), (60, "changed"))
    ),
    *(
        Scenario(
            f"an empty source may have been emptied again while the process stood still, "
            f"{seconds} s",
            f"{EMPTY}write app.log unseen; set app.log two; for {seconds} app.log; "
            f"away {seconds}; settle; write app.log three; away {seconds}; settle",
            "one*500 two three",
            ("truncated *", f"{traces} .: *{EMPTIED}"),
            "app.log",
        )
        for seconds, traces in ((4, "brief"), (60, "changed"))
    ),
    Scenario(
        "an empty source to which nothing was written",
        f"{EMPTY}stop; start; settle",
        "one*500",
        ("truncated *", UNCHANGED),
        "app.log",
    ),
    Scenario(
        "an empty source that still begins as was seen",
        f"{EMPTY}write app.log two; rest; stop; write app.log three; start; settle",
        "one*500 two three",
        ("truncated *", UNCHANGED),
        "app.log",
    ),
    *(
        Scenario(
            f"behind a link that is switched names {what}",
            "mkdir 1; mkdir 2; write 1/app.log 1; write 2/app.log 2; link 1 current; rest; turn 6; "
            f"link 2 new; mv new current; tick; {comes}write 1/other watched; rest; {LONG}",
            "1 2",
            said,
            "current/app.log*",
        )
        for what, comes, said in (
            ("stay", "", ()),
            (
                "come and go",
                "write 2/app.log.1 unseen; tick; rm 2/app.log.1; ",
                ("changed current: *",),
            ),
        )
    ),
)
def test_nobody_looked(logs: LogFolder, scenario: Scenario) -> None:
    check(logs, scenario)


@pytest.mark.parametrize("before", ["", "mkdir shop; write shop/app.log 0; rest; rmtree shop; "])
@scenarios(
    Scenario(
        "something came and went and nothing since",
        "mkdir shop; write shop/app.log.1 unseen; write shop/app.log new; tick; "
        f"rm shop/app.log.1; {LONG}",
        "new",
        ("changed shop: not watched before; names came and went",),
    ),
    Scenario(
        "names came and went for longer than a moment",
        "mkdir shop; write shop/app.log unseen; sleep 1.1; rm shop/app.log; "
        f"write shop/app.log new; {LONG}",
        "new",
        ("changed shop: not watched before; names came or went for longer than a second",),
    ),
    Scenario(
        "it is made and something in it",
        f"mkdir shop; tick; write shop/app.log one; tick; write shop/app.log two; {LONG}",
        "one two",
    ),
    Scenario(
        "it is made and a finished file renamed in it",
        f"mkdir shop; write shop/new one; tick; mv shop/new shop/app.log; {LONG}",
        "one",
    ),
    Scenario("it is made and empty", f"mkdir shop; {LONG}", ""),
    Scenario(
        "one that is moved there: what came and went in it before is no input's",
        "mkdir else; mkdir else/made; write else/made/app.log one; write else/made/app.log.1 x; "
        f"tick; rm else/made/app.log.1; {LONG}; mv else/made shop; {LONG}",
        "one",
    ),
    Scenario(
        "what comes and goes once it is watched",
        "mkdir shop; turn; write shop/app.log one; tick; turn; mv shop/app.log shop/app.log.1; "
        f"write shop/app.log two; rm shop/app.log.1; {LONG}",
        "one two",
    ),
)
def test_a_new_folder_or_one_that_is_replaced(
    logs: LogFolder, before: str, scenario: Scenario
) -> None:
    """It is made before the next look, and nobody knows of it yet."""
    read = f"{scenario.read} {'0' * bool(before)}"
    follow = "*/app.log*"
    script = f"{before or 'rest; '}{scenario.script}"
    check(logs, scenario._replace(script=script, read=read, follow=follow), ignore="brief *")


def test_folders_that_an_input_means_only_now(logs: LogFolder) -> None:
    files = logs.follow("a/app.log")
    steps = Steps(logs, files)
    steps.play("mkdir a; mkdir b; rest; write b/app.log one; tick; rm b/app.log")
    files.files.reconfigure([replace(files.inputs[0], paths=(f"{logs.path}/*/app.log",))])
    steps.play(LONG)
    assert files.unwatched == []
    steps.play(f"mkdir c; write c/app.log one; tick; rm c/app.log; {LONG}")
    assert [each.path for each in files.unwatched] == [str(logs / "c")], "that is known to be new"


def test_a_change_in_the_tick_of_the_last_look_counts(logs: LogFolder) -> None:
    """It would leave the folder's times as they were."""
    files, log = logs.follow(), logs.log
    append(log, "one\n")
    rest(files)
    hour_on = time.time_ns() + 3_600_000_000_000
    os.utime(logs.path, ns=(hour_on, hour_on))  # the tick of that time is not over
    rest(files)
    files.turn(6.0)
    files.files.close()
    assert logs.path.stat().st_mtime_ns == hour_on
    files.restart_closed()
    files.turn()
    assert [each.traces for each in files.unwatched] == [Traces.CHANGED]


def test_folders_that_only_new_patterns_lead_to(logs: LogFolder) -> None:
    """As in a first start: what lay in them before nobody had asked for."""
    for name in ("a", "b", "c"):
        (logs / name).mkdir()
        append(logs / name / "app.log", f"{name}\n")
    files = logs.follow("a/*.log", exclude=("c",))
    rest(files)
    files.crash()
    (logs / "new").mkdir()
    (one,) = files.inputs
    wider = tuple(str(logs / each) for each in ("a/*.log", "[!n]/*.log"))
    files.inputs = [replace(one, paths=wider, exclude=())]
    files.restart_closed()
    rest(files)
    assert {each.path: each.traces for each in of_folders(files)} == {
        str(logs / "a"): Traces.UNCHANGED
    }
    assert sorted(files.text.split()) == [b"a", b"b", b"c"]
    files.said.clear()
    files.crash()
    shutil.rmtree(logs / "b")
    (logs / "d").mkdir()
    files.restart_closed()
    rest(files)
    found = {Path(each.path).name: each for each in of_folders(files)}
    assert found["b"].traces is found["d"].traces is Traces.CHANGED
    assert "the folder is new" in found["d"].reason


def test_folders_that_no_pattern_leads_to_any_more(logs: LogFolder) -> None:
    for name in ("a", "b"):
        (logs / name).mkdir()
        append(logs / name / "app.log", f"{name}\n")
    files = logs.follow("*/*.log")
    rest(files)
    files.crash()
    (one,) = files.inputs
    files.inputs = [replace(one, paths=(str(logs / "a" / "*.log"),))]
    files.restart_closed()
    rest(files)
    found = {Path(each.path).name: each for each in of_folders(files)}
    assert found["a"].traces is Traces.UNCHANGED
    assert found["b"].traces is Traces.CHANGED
    assert "no pattern leads there any more" in found["b"].reason


def test_many_folders_are_one_statement(logs: LogFolder) -> None:
    for number in range(50):
        (logs / f"{number:02}").mkdir()
        append(logs / f"{number:02}" / "app.log", f"{number}\n")
    files = logs.follow("*/app.log")
    rest(files)
    files.restart()
    files.turn()
    (said,) = files.unwatched
    assert (said.path, said.traces) == (str(logs.path), Traces.UNCHANGED)
    assert "51 folders" in said.reason


@pytest.mark.not_quick("very many files")
@pytest.mark.parametrize("beyond", [0, 1])
def test_more_folders_than_are_remembered(beyond: int) -> None:
    """Of others nothing can be told, whether or not they are still there."""
    stamps = {f"/logs/{number}": Stamp(1, number, 3, 4, True) for number in range(MOST_FOLDERS)}
    more = {f"/{number}": Stamp(1, number, 3, 4, True) for number in range(beyond)}
    folders, survey = Folders(), Survey(["/**"], (), print)
    listing = Listing(stamps=more | stamps, complete=True)
    folders.take(Listing(stamps=stamps, complete=True), NOT_KNOWN, 5, ClockSetting())
    folders.take(listing, NOT_KNOWN, 6, ClockSetting())
    looked = folders.looked_at("in", 0, 0).after(None)
    assert looked.folders == stamps  # what is known stays so
    blind = Blind("t", [Period(6, 9)], "nobody looked")
    for now in (listing, Listing(stamps=stamps, complete=True)):
        known = KnownFiles({}, {}, lambda path, _: survey.means(path))
        said = blind_statements(survey, now, stamps, looked, blind, known=known, written={})
        assert [each.traces for each in said] == [Traces.OTHER] * beyond + [Traces.UNCHANGED]
        if beyond:
            assert f"no more than {MOST_FOLDERS} folders is remembered" in said[0].reason


def test_times_in_the_future_are_sure_if_they_were_or_stay_for_a_minute() -> None:
    """As after the clock was set back."""
    future = Stamp(1, 2, 3, 4, is_sure=False)

    def unsure_after(
        folders: Folders, stamp: Stamp, later: float, earlier: Stamp = NOWHERE
    ) -> list[str]:
        listing = Listing(stamps={"/a": stamp}, complete=True, began=time.monotonic() + later)
        folders.take(listing, NOT_KNOWN, 5, ClockSetting(), {"/a": earlier})
        return folders.unsure()

    folders = Folders()
    for stamp, later, unsure in (
        (future, 0, ["/a"]),
        (future, 30, ["/a"]),
        (future, 62, []),
        (future, 0, []),
        (future._replace(mtime_ns=5), 0, ["/a"]),
    ):
        assert unsure_after(folders, stamp, later) == unsure
    assert unsure_after(Folders(), future, 0, future._replace(is_sure=True)) == []
    assert unsure_after(Folders(), future, 0, Stamp(1, 2, 3, 9, is_sure=True)) == ["/a"]


def test_a_clock_that_went_back_hides_nothing(logs: LogFolder) -> None:
    wall = time.time()
    files, log = logs.follow(wall=wall), logs.log
    append(log, "one\n")
    rest(files)
    stopped = files.wall
    assert stopped is not None
    files.files.close()
    append(logs / "app.log.tmp", "x")
    (logs / "app.log.tmp").unlink()
    files.wall = wall - 7200
    files.restart_closed()
    files.turn()
    for said, now in zip(files.unwatched, (stopped, wall - 7200), strict=True):
        assert said.traces is Traces.CHANGED
        assert said.from_millis <= now * 1000 + 1000
        assert now * 1000 - 1000 < said.to_millis < said.from_millis + 60_000


def test_an_empty_file_that_was_not_asked_for_before(logs: LogFolder) -> None:
    files = logs.follow("*.log")
    (logs / "app.txt").touch()
    rest(files)
    files.files.close()
    append(logs / "app.txt", "one\n")
    written_for(10.0, logs / "app.txt")
    files.inputs = [replace(files.inputs[0], paths=(*files.inputs[0].paths, f"{logs.path}/*.txt"))]
    files.restart_closed()
    settle(files)
    assert [each.traces for each in files.unwatched] == [Traces.UNCHANGED]
    assert files.text == b"one\n"

"""The witness objects to what is called unknown though a kept history knows it, and to nothing that
no history tells."""

from collections.abc import Callable
from pathlib import PurePath

import pytest
from msgspec.structs import replace

from tests.campaigns.witness.application import LINK
from tests.campaigns.witness.examples import PATH, landed, logged, red, written
from tests.campaigns.witness.judging import false_unknowns
from tests.campaigns.witness.truth import Blind, File, Truth
from tests.campaigns.witness.verdict import Called, Seen

FOLDER = str(PurePath(PATH).parent)
UNKNOWN = Called(
    *("unknown", "nobody looked; names that are new: b.log", "agent", "web-1", FOLDER),
    from_time=10_000,
    to_time=20_000,
)
OF_FILE = replace(UNKNOWN, path=PATH, source="s1", position=30)
MOMENT = replace(
    UNKNOWN, harmless="for a moment only, and new files are hardly ever emptied that soon"
)


def needless(truth: Truth, called: Called, *rows: int) -> list[str]:
    """Rules that are broken where these lines have landed, or else all."""
    numbers = rows or tuple(range(len(truth.files[0].lines)))
    seen = Seen(landed(*numbers), logged(*numbers))
    return [each.rule for each in false_unknowns(truth, seen, red(called, state="unknown"))]


def quiet() -> Truth:
    """A file all of whose lines have landed, and an agent that was dead for a while."""
    truth = written(3)
    truth.blind.append(Blind(11_000, 19_000))
    return truth


def another(truth: Truth, label: str = "b", **more: int) -> File:
    """A file of the same folder, of which nothing was read."""
    file = File(label, 2, [f"{FOLDER}/b.log"])
    for name, value in more.items():
        setattr(file, name, value)
    truth.files.append(file)
    return file


@pytest.mark.parametrize("called", [UNKNOWN, OF_FILE, MOMENT])
def test_what_holds_no_lost_line_is_needless(called: Called) -> None:
    (found,) = false_unknowns(
        quiet(), Seen(landed(0, 1, 2), logged(0, 1, 2)), red(called, state="unknown")
    )
    assert found.kind == found.rule == "false unknown"
    assert str(found) == f"false unknown [false unknown] {called.words}"


@pytest.mark.parametrize("called", [UNKNOWN, replace(OF_FILE, position=20)])
def test_what_holds_a_lost_line_is_not(called: Called) -> None:
    truth = quiet()
    truth.files[0].lines[2].written = 15_000
    assert needless(truth, called, 0, 1) == []
    assert needless(truth, called, 0, 2) == ["false unknown"], "it was written at another time"
    elsewhere = replace(called, path="/logs/two", source=called.source and "s2")
    assert needless(truth, elsewhere, 0, 1) == ["false unknown"]


def test_it_is_about_what_agents_say_alone() -> None:
    of_rows = Called("unknown", "rows of nobody", source="s1", seq=0, events=2)
    of_log = Called("unknown", "the log may have lost some", partition=0, offset=2)
    for called in (of_rows, of_log, Called("missing", "offsets 2 to 3", offset=2, offsets=2)):
        assert needless(quiet(), called) == []


def written_to(truth: Truth, moment: int) -> None:
    """It had stood empty."""
    for line in truth.files[0].lines:
        line.written = moment


def of_first(truth: Truth, **more: int) -> None:
    for name, value in more.items():
        setattr(truth.files[0], name, value)


HAPPENS: dict[str, Callable[[Truth, int], object]] = {
    "copied": lambda truth, at: of_first(truth, copied=at),
    "truncated": lambda truth, at: of_first(truth, cut=True, ended=at),
    "emptied": lambda truth, at: another(truth, ended=at, cut=True),
    "came and went": lambda truth, at: another(truth, made=at - 1_500, ended=at),
    "hidden": lambda truth, at: another(truth, made=at - 1_500, hidden=at),
    "begun": lambda truth, at: another(truth, made=at),
    "written to": written_to,
    "made anew": lambda truth, at: another(truth, folder_made=at, made=at),
    "switched": lambda truth, at: another(truth, LINK, made=at),  # a link to another file
    "forgotten": lambda truth, at: truth.forgotten.append(at),
}


@pytest.mark.parametrize(
    ("happens", "called"),
    [
        ("copied", OF_FILE),
        ("copied", replace(UNKNOWN, words="a.log.1 has it; what it got after it was copied is …")),
        ("truncated", OF_FILE),
        ("emptied", UNKNOWN),
        ("emptied", replace(OF_FILE, path=f"{FOLDER}/b.log", source="s2")),
        ("came and went", UNKNOWN),
        ("came and went", replace(UNKNOWN, path="/logs")),
        ("hidden", UNKNOWN),
        ("begun", MOMENT),
        ("written to", MOMENT),
        ("switched", replace(UNKNOWN, words="written to, and may have been emptied: s.log")),
        ("forgotten", UNKNOWN),
        ("forgotten", OF_FILE),
    ],
)
def test_what_no_history_tells_may_be_unknown_at_that_time(happens: str, called: Called) -> None:
    for moment, broken in ((15_000, []), (25_000, ["false unknown"]), (5_000, ["false unknown"])):
        truth = quiet()
        HAPPENS[happens](truth, moment)
        assert needless(truth, called) == broken, moment


@pytest.mark.parametrize("happens", sorted(HAPPENS.keys() - {"written to", "forgotten"}))
def test_nor_is_it_told_of_another_place(happens: str) -> None:
    for words in ("", "what it got after it was copied"):
        truth = quiet()
        HAPPENS[happens](truth, 15_000)
        assert needless(truth, replace(UNKNOWN, path="/else", words=words)) == ["false unknown"]


def test_what_was_read_is_known_whatever_becomes_of_it() -> None:
    truth = quiet()
    (file,) = truth.files
    file.made, file.ended = 14_000, 15_000
    assert needless(truth, UNKNOWN) == ["false unknown"]
    assert needless(truth, OF_FILE) == ["false unknown"]

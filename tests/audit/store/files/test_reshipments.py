"""Files that are shipped once more, by an agent that knows nothing of the first time."""

from pathlib import Path
from typing import Any, Final

import pytest

from audit.reconciling.findings import FaultKind, Finding, State
from audit.reconciling.topic_verdict import TopicVerdict
from tests.audit.audited_ledger import FIRST, NOW, judged
from tests.audit.log_entries import each_way, in_chunks, lines, load, operator
from tests.audit.store.said import MINUTE, TOPIC, Json, entry, passage, run, window

pytestmark = pytest.mark.not_quick("judges hundreds of ledgers")

TIME = FIRST + MINUTE
AGAIN = TIME + 3 * MINUTE
MORE = TIME + 6 * MINUTE
HOST = "web-1"
FILE = {"identity": "8:1-77-1700000000", "head_size": 1_024, "head": "ab"}


def said(at: int, agent: str, source: str, first: int, numbers: range, **more: Any) -> list[Json]:
    """Of all tiers, these lines at offsets from `first` on; `at` counts these."""
    time = (TIME, AGAIN, AGAIN, MORE)[at]
    seq, events = numbers.start, len(numbers)
    whole = passage(0, first, events, [window(time, events)])
    mine = [whole | {"runs": [lines(seq, events, source, "/var/log/app.log")]}]
    beat = {"until": NOW, "topics": [TOPIC]}
    number = at if agent == "A" else at - 1
    told = entry("agent", agent, number, time, passages=mine, heartbeats=[beat], **more)
    told["header"]["host"] = HOST
    landed = whole | {"runs": [run(source, seq, events)]}
    broker = entry("broker", "broker", at, time, passages=[whole])
    return [told, broker, load(at, landed, time=time)]


def file(source: str, **more: Any) -> Json:
    return {"topic": TOPIC, "source": source, "path": "/var/log/app.log"} | FILE | more


def shipped_twice(
    first: Json | None = None, second: Json | None = None, *, agent: str = "B"
) -> list[Json]:
    """A hundred lines, then these again, and thirty more, much later."""
    files = [first or file("S"), second or file("T")]
    return [
        *said(0, "A", "S", 0, range(100), files=files[:1]),
        *said(1, agent, "T", 100, range(60), files=files[1:]),
        *said(2, agent, "T", 160, range(60, 100)),
        *said(3, agent, "T", 200, range(100, 130)),
    ]


def duplicated(verdict: TopicVerdict) -> list[Finding]:
    return [each for each in verdict.findings if each.kind is FaultKind.DUPLICATED]


@each_way
def test_only_what_was_there_before_is_a_copy(tmp_path: Path, way: str) -> None:
    entries = shipped_twice()
    verdict = judged(tmp_path, in_chunks(entries, way))
    (finding,) = duplicated(verdict)
    assert finding.words == (
        "web-1: /var/log/app.log, bytes 0 to 1,000 (100 events) had been shipped before by agent A"
        " as source S: the agent has another data directory since 2025-10-09 09:04:00"
    )
    assert (finding.agent, finding.source, finding.events) == ("B", "T", 100)
    assert [(each.start, each.state) for each in verdict.windows] == [
        (TIME, State.COMPLETE),
        (AGAIN, State.DUPLICATED),
        (MORE, State.COMPLETE),
    ]
    assert verdict.totals.duplicated == 100
    assert [(each.host, each.totals.duplicated) for each in verdict.hosts] == [(HOST, 100)]


def test_a_copy_of_a_part_of_a_run(tmp_path: Path) -> None:
    entries = [
        *said(0, "A", "S", 0, range(100), files=[file("S")]),
        *said(1, "B", "T", 100, range(130), files=[file("T")]),
    ]
    (finding,) = duplicated(judged(tmp_path, [entries]))
    assert (finding.position, finding.end_position, finding.events) == (0, 1_000, 100)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"identity": ""}, {}),
        ({"identity": ""}, {"identity": ""}),
        ({"head_size": 300}, {"head_size": 300}),
    ],
)
def test_what_is_known_of_a_file_is_enough(tmp_path: Path, first: Json, second: Json) -> None:
    entries = shipped_twice(file("S", **first), file("T", **second))
    assert len(duplicated(judged(tmp_path, [entries]))) == 1


def shorter(*levels: str) -> str:
    """What an agent says of the first 16 bytes, 32, and so on."""
    return "".join(each * 4 for each in levels)


@each_way
def test_a_file_that_has_grown_since_is_known_by_fewer_bytes(tmp_path: Path, way: str) -> None:
    """The first agent has said what it begins with when it had only a few."""
    entries = shipped_twice(file("S", **FEW), file("T", **MANY))
    (finding,) = duplicated(judged(tmp_path, in_chunks(entries, way)))
    assert (finding.source, finding.events) == ("T", 100)


FEW: Final = {"head_size": 53, "head": "cd", "shorter_heads": shorter("01", "02")}
MANY: Final = {"shorter_heads": shorter("01", "02", "03", "04", "05", "06", "07")}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"identity": "8:1-78-1700000001"}),  # two files that begin alike
        ({}, {"head": "cd"}),  # the same inode, written anew
        ({"identity": "", "head_size": 300}, {"identity": "", "head_size": 300}),
        ({"identity": "", "head": ""}, {"identity": "", "head": ""}),
        # One that has grown:
        (FEW | {"shorter_heads": shorter("01", "99")}, MANY),  # truncated, and written anew
        (FEW | {"shorter_heads": ""}, MANY),  # of an older agent, or of fewer than 16 bytes
        (FEW, {"shorter_heads": ""}),
        (FEW, MANY | {"identity": ""}),
        (FEW, MANY | {"identity": "8:1-78-1700000001"}),
    ],
)
def test_what_is_not_known_to_be_the_same_is_not(tmp_path: Path, first: Json, second: Json) -> None:
    verdict = judged(tmp_path, [shipped_twice(file("S", **first), file("T", **second))])
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


@pytest.mark.parametrize("identity", ["8:1-66-1600000000", "8:1-99-1800000000"])
@each_way
def test_a_source_that_went_on_in_a_copy_is_the_copy(
    tmp_path: Path, identity: str, way: str
) -> None:
    """Which it says when it does, also if there is nothing more to be read in it."""
    entries = [
        *said(0, "A", "S", 0, range(100), files=[file("S", identity=identity)]),
        entry("agent", "A", 1, TIME + 1, files=[file("S")]),
        *said(1, "B", "T", 100, range(100), files=[file("T")]),
    ]
    entries[3]["header"]["host"] = HOST
    entries[3]["heartbeats"] = [{"until": NOW, "topics": [TOPIC]}]
    (finding,) = duplicated(judged(tmp_path, in_chunks(entries, way)))
    assert (finding.source, finding.events) == ("T", 100)


COPIED = {"identity": "8:1-88-1800000000"}


@each_way
@pytest.mark.parametrize("head", [FILE, FILE | {"head_size": 40}])
def test_one_that_goes_on_in_a_copy_later_was_the_same_file(
    tmp_path: Path, way: str, head: Json
) -> None:
    """Unless its beginning may be that of many files: those that a copied file has later are."""
    entries = [
        *said(0, "A", "S", 0, range(100), files=[file("S", **head)]),
        *said(1, "B", "T", 100, range(60), files=[file("T", **head)]),
        *said(2, "B", "T", 160, range(60, 100), files=[file("T", **head | COPIED)]),
    ]
    found = duplicated(judged(tmp_path, in_chunks(entries, way)))
    if head == FILE:
        (finding,) = found
        assert (finding.source, finding.events) == ("T", 100)
    elif way != "one by one":
        assert found == []


EMPTIED: Final = file("U", head_size=300, head="ef", shorter_heads=shorter("91", "92", "93"))


def copied_and_emptied(original: Json, copy: Json, emptied: Json) -> list[Json]:
    """While no agent ran, whose data directory was deleted: the copy is met first."""
    told = entry("agent", "B", 1, AGAIN + 1, files=[emptied])
    told["header"]["host"] = HOST
    return [
        *said(0, "A", "S", 0, range(100), files=[file("S", **MANY | original)]),
        *said(1, "B", "T", 100, range(100), files=[file("T", **MANY | copy)]),
        told,
    ]


@each_way
def test_one_that_was_copied_and_emptied_meanwhile_is_its_copy(tmp_path: Path, way: str) -> None:
    entries = copied_and_emptied({}, COPIED, EMPTIED)
    (finding,) = duplicated(judged(tmp_path, in_chunks(entries, way)))
    assert (finding.source, finding.events) == ("T", 100)
    assert "had been shipped before by agent A as source S" in finding.words


@pytest.mark.parametrize(
    ("original", "copy", "emptied"),
    [
        ({}, COPIED | {"head": "cd"}, {}),  # another file
        ({"head_size": 300}, COPIED | {"head_size": 300}, {}),  # as many files begin
        ({}, COPIED, MANY),  # the original goes on
        ({}, COPIED, {"identity": "8:1-99-1900000000"}),  # a new file in its place
        ({}, COPIED, {"shorter_heads": ""}),  # nobody knows whether it goes on
    ],
)
def test_two_files_that_begin_alike_stay_two(
    tmp_path: Path, original: Json, copy: Json, emptied: Json
) -> None:
    verdict = judged(tmp_path, [copied_and_emptied(original, copy, EMPTIED | emptied)])
    assert duplicated(verdict) == []


def test_a_file_that_the_first_agent_knew_is_no_copy_of_another_one(tmp_path: Path) -> None:
    entries = copied_and_emptied({}, COPIED, EMPTIED)
    entries[0]["files"].append(file("V", **MANY | COPIED | {"head": "cd"}))
    assert duplicated(judged(tmp_path, [entries])) == []


def forgotten(*more: Json, before: int = 1) -> list[Json]:
    """The same agent ships a file as T that it has shipped as S, and knows nothing of entries
    below that number; `more` is what its third entry says of files."""
    entries = shipped_twice(second=file("T", forgotten_before=before), agent="A")
    entries[6]["files"] = list(more)
    return entries


@each_way
def test_what_an_agent_has_forgotten_it_ships_again(tmp_path: Path, way: str) -> None:
    entries = forgotten()
    verdict = judged(tmp_path, in_chunks(entries, way))
    (finding,) = duplicated(verdict)
    assert finding.words == (
        "web-1: /var/log/app.log, bytes 0 to 1,000 (100 events) had been shipped before by the same"
        " agent as source S: its journal was damaged, and has forgotten that, since 2025-10-09"
        " 09:04:00"
    )
    assert (finding.agent, finding.source, finding.events) == ("A", "T", 100)
    assert [(each.start, each.state) for each in verdict.windows] == [
        (TIME, State.COMPLETE),
        (AGAIN, State.DUPLICATED),
        (MORE, State.COMPLETE),
    ]


def test_the_one_that_was_begun_anew_is_the_copy_whatever_the_clock_says(tmp_path: Path) -> None:
    entries = forgotten()
    entries[0]["header"]["time"] = MORE
    (finding,) = duplicated(judged(tmp_path, [entries]))
    assert finding.source == "T"


@each_way
def test_what_an_agent_still_speaks_of_it_has_not_forgotten(tmp_path: Path, way: str) -> None:
    """A file that was truncated while no agent ran keeps its inode, and may begin with the same
    lines: the agent knows what it was before, and says how that ended."""
    entries = forgotten(file("S"))
    verdict = judged(tmp_path, in_chunks(entries, way))
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])
    assert {each.state for each in verdict.windows} == {State.COMPLETE}


def of_two_hosts() -> list[Json]:
    entries = shipped_twice()
    for each in entries[:3]:
        each["header"]["host"] = "web-2"
    return entries


@pytest.mark.parametrize(
    "entries",
    [
        # A file that it has truncated itself keeps its inode, and may begin with the same lines.
        pytest.param(shipped_twice(agent="A"), id="an agent knows what it begins anew"),
        pytest.param(
            shipped_twice(first=file("S", forgotten_before=0), agent="A"),
            id="truncated later, it is no copy of the one begun anew",
        ),
        pytest.param(of_two_hosts(), id="another host may have the same file"),
    ],
)
def test_what_is_no_copy(tmp_path: Path, entries: list[Json]) -> None:
    verdict = judged(tmp_path, [entries])
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


def test_it_is_accepted_by_its_bytes(tmp_path: Path) -> None:
    known = operator(reason="we know", runs=[run("T", 0, 0, position=0, end_position=1_000)])
    verdict = judged(tmp_path, [[*shipped_twice(), known]])
    assert verdict.state is State.COMPLETE
    assert [each.accepted for each in verdict.findings] == ["we know"]

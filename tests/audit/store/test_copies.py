"""Files that are shipped once more, by an agent that knows nothing of the first time."""

from pathlib import Path
from typing import Any, Final

import pytest

from audit.findings import FaultKind, Finding, State
from audit.verdicts import TopicVerdict
from tests.audit.judged_ledger import FIRST, NOW, judged
from tests.audit.store.said import (
    MINUTE,
    ROOT,
    TOPIC,
    Json,
    entry,
    passage,
    run,
    window,
)

TIME = FIRST + MINUTE
AGAIN = TIME + 3 * MINUTE
MORE = TIME + 6 * MINUTE
HOST = "web-1"
FILE = {"identity": "8:1-77-1700000000", "head_size": 1_024, "head": "ab"}


def said(at: int, agent: str, source: str, first: int, *runs: Json, **more: Any) -> list[Json]:
    """Of all tiers, the events of these runs at offsets from `first` on; `at` counts these."""
    journal, seq = agent, at if agent == "A" else at - 1
    time = (TIME, AGAIN, AGAIN, MORE)[at]
    events = sum(each["events"] for each in runs)
    whole = passage(0, first, events, [window(time, events)])
    beat = {"until": NOW, "topics": [TOPIC]}
    mine = [whole | {"runs": list(runs)}]
    told = entry("agent", journal, seq, time, passages=mine, heartbeats=[beat], **more)
    told["header"]["host"] = HOST
    landed = [run(source, each["seq"], each["events"]) for each in runs]
    return [
        told,
        entry("broker", "broker", at, time, passages=[whole]),
        entry(
            "hdfs",
            "loader",
            at,
            time,
            destination=ROOT,
            run=at,
            passages=[whole | {"runs": landed}],
        ),
    ]


def lines(source: str, seq: int, events: int) -> Json:
    """Of fifty bytes each."""
    where = {"position": seq * 50, "end_position": (seq + events) * 50}
    return run(source, seq, events, path="/var/log/app.log", **where)


def file(source: str, **more: Any) -> Json:
    return {"topic": TOPIC, "source": source, "path": "/var/log/app.log"} | FILE | more


def shipped_twice(
    first: Json | None = None, second: Json | None = None, *, agent: str = "B"
) -> list[Json]:
    """A hundred lines, then these again, and thirty more, much later."""
    files = [first or file("S"), second or file("T")]
    return [
        *said(0, "A", "S", 0, lines("S", 0, 100), files=files[:1]),
        *said(1, agent, "T", 100, lines("T", 0, 60), files=files[1:]),
        *said(2, agent, "T", 160, lines("T", 60, 40)),
        *said(3, agent, "T", 200, lines("T", 100, 30)),
    ]


def duplicated(verdict: TopicVerdict) -> list[Finding]:
    return [each for each in verdict.findings if each.kind is FaultKind.DUPLICATED]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("backwards", [True, False])
def test_only_what_was_there_before_is_a_copy(
    tmp_path: Path, together: bool, backwards: bool
) -> None:
    entries = shipped_twice()
    if backwards:
        entries.reverse()
    verdict = judged(tmp_path, [entries] if together else [[each] for each in entries])
    (finding,) = duplicated(verdict)
    assert finding.words == (
        "web-1: /var/log/app.log, bytes 0 to 5,000 (100 events) had been shipped before by agent A"
        " as source S: the agent's data directory is another one since 2025-10-09 09:04:00"
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
        *said(0, "A", "S", 0, lines("S", 0, 100), files=[file("S")]),
        *said(1, "B", "T", 100, lines("T", 0, 130), files=[file("T")]),
    ]
    (finding,) = duplicated(judged(tmp_path, [entries]))
    assert (finding.position, finding.end_position, finding.events) == (0, 5_000, 100)


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


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"identity": "8:1-78-1700000001"}),  # two files that begin alike
        ({}, {"head": "cd"}),  # the same inode, written anew
        ({"identity": "", "head_size": 300}, {"identity": "", "head_size": 300}),
        ({"identity": "", "head": ""}, {"identity": "", "head": ""}),
    ],
)
def test_what_is_not_known_to_be_the_same_is_not(tmp_path: Path, first: Json, second: Json) -> None:
    entries = shipped_twice(file("S", **first), file("T", **second))
    verdict = judged(tmp_path, [entries])
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


def shorter(*levels: str) -> str:
    """What an agent says of the first 16 bytes, 32, and so on."""
    return "".join(each * 4 for each in levels)


@pytest.mark.parametrize("backwards", [True, False])
def test_a_file_that_has_grown_since_is_known_by_fewer_bytes(
    tmp_path: Path, backwards: bool
) -> None:
    """The first agent has said what it begins with when it had only a few."""
    before = {"head_size": 53, "head": "cd", "shorter_heads": shorter("01", "02")}
    after = {"shorter_heads": shorter("01", "02", "03", "04", "05", "06", "07")}
    entries = shipped_twice(file("S", **before), file("T", **after))
    if backwards:
        entries.reverse()
    (finding,) = duplicated(judged(tmp_path, [[each] for each in entries]))
    assert (finding.source, finding.events) == ("T", 100)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"shorter_heads": shorter("01", "99")}, {}),  # truncated, and written anew
        ({"shorter_heads": ""}, {}),  # of an older agent, or of fewer than 16 bytes
        ({}, {"shorter_heads": ""}),
        ({}, {"identity": ""}),
        ({}, {"identity": "8:1-78-1700000001"}),
    ],
)
def test_a_file_of_another_size_that_may_be_another_one(
    tmp_path: Path, first: Json, second: Json
) -> None:
    few = {"head_size": 53, "head": "cd", "shorter_heads": shorter("01", "02")}
    many = {"shorter_heads": shorter("01", "02", "03", "04", "05", "06", "07")}
    verdict = judged(
        tmp_path, [shipped_twice(file("S", **few | first), file("T", **many | second))]
    )
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


@pytest.mark.parametrize("identity", ["8:1-66-1600000000", "8:1-99-1800000000"])
@pytest.mark.parametrize("backwards", [True, False])
def test_a_source_that_went_on_in_a_copy_is_the_copy(
    tmp_path: Path, identity: str, backwards: bool
) -> None:
    """Which it says when it does, also if there is nothing more to be read in it."""
    entries = [
        *said(0, "A", "S", 0, lines("S", 0, 100), files=[file("S", identity=identity)]),
        entry("agent", "A", 1, TIME + 1, files=[file("S")]),
        *said(1, "B", "T", 100, lines("T", 0, 100), files=[file("T")]),
    ]
    entries[3]["header"]["host"] = HOST
    entries[3]["heartbeats"] = [{"until": NOW, "topics": [TOPIC]}]
    if backwards:
        entries.reverse()
    (finding,) = duplicated(judged(tmp_path, [[each] for each in entries]))
    assert (finding.source, finding.events) == ("T", 100)


COPIED = {"identity": "8:1-88-1800000000"}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("backwards", [True, False])
@pytest.mark.parametrize("head", [FILE, FILE | {"head_size": 40}])
def test_one_that_goes_on_in_a_copy_later_was_the_same_file(
    tmp_path: Path, together: bool, backwards: bool, head: Json
) -> None:
    """Unless its beginning may be that of many files: those that a copied file has later are."""
    entries = [
        *said(0, "A", "S", 0, lines("S", 0, 100), files=[file("S", **head)]),
        *said(1, "B", "T", 100, lines("T", 0, 60), files=[file("T", **head)]),
        *said(2, "B", "T", 160, lines("T", 60, 40), files=[file("T", **head | COPIED)]),
    ]
    if backwards:
        entries.reverse()
    chunks = [entries] if together else [[each] for each in entries]
    found = duplicated(judged(tmp_path, chunks))
    if head == FILE:
        ((finding),) = found
        assert (finding.source, finding.events) == ("T", 100)
    elif together or backwards:
        assert found == []


LONG_AGO: Final = {"shorter_heads": shorter("01", "02", "03", "04", "05", "06", "07")}
EMPTIED: Final = file("U", head_size=300, head="ef", shorter_heads=shorter("91", "92", "93"))


def copied_and_emptied(original: Json, copy: Json, emptied: Json) -> list[Json]:
    """While no agent ran, whose data directory was deleted: the copy is met first."""
    told = entry("agent", "B", 1, AGAIN + 1, files=[emptied])
    told["header"]["host"] = HOST
    return [
        *said(0, "A", "S", 0, lines("S", 0, 100), files=[file("S", **LONG_AGO | original)]),
        *said(1, "B", "T", 100, lines("T", 0, 100), files=[file("T", **LONG_AGO | copy)]),
        told,
    ]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("order", [1, -1])
def test_one_that_was_copied_and_emptied_meanwhile_is_its_copy(
    tmp_path: Path, together: bool, order: int
) -> None:
    entries = copied_and_emptied({}, COPIED, EMPTIED)[::order]
    (finding,) = duplicated(judged(tmp_path, [entries] if together else [[e] for e in entries]))
    assert (finding.source, finding.events) == ("T", 100)
    assert "had been shipped before by agent A as source S" in finding.words


@pytest.mark.parametrize(
    ("original", "copy", "emptied"),
    [
        ({}, COPIED | {"head": "cd"}, {}),  # another file
        ({"head_size": 300}, COPIED | {"head_size": 300}, {}),  # as many files begin
        ({}, COPIED, LONG_AGO),  # the original goes on
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
    entries[0]["files"].append(file("V", **LONG_AGO | COPIED | {"head": "cd"}))
    assert duplicated(judged(tmp_path, [entries])) == []


def test_an_agent_knows_what_it_begins_anew(tmp_path: Path) -> None:
    """A file that it has truncated itself keeps its inode, and may begin with the same lines."""
    verdict = judged(tmp_path, [shipped_twice(agent="A")])
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


def forgotten(*more: Json, before: int = 1) -> list[Json]:
    """The same agent ships a file as T that it has shipped as S, and knows nothing of entries
    below that number; `more` is what its third entry says of files."""
    entries = shipped_twice(second=file("T", forgotten_before=before), agent="A")
    entries[6]["files"] = list(more)
    return entries


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("backwards", [True, False])
def test_what_an_agent_has_forgotten_it_ships_again(
    tmp_path: Path, together: bool, backwards: bool
) -> None:
    entries = forgotten()
    if backwards:
        entries.reverse()
    verdict = judged(tmp_path, [entries] if together else [[each] for each in entries])
    (finding,) = duplicated(verdict)
    assert finding.words == (
        "web-1: /var/log/app.log, bytes 0 to 5,000 (100 events) had been shipped before by the same"
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


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("backwards", [True, False])
def test_what_an_agent_still_speaks_of_it_has_not_forgotten(
    tmp_path: Path, together: bool, backwards: bool
) -> None:
    """A file that was truncated while no agent ran keeps its inode, and may begin with the same
    lines: the agent knows what it was before, and says how that ended."""
    entries = forgotten(file("S"))
    if backwards:
        entries.reverse()
    verdict = judged(tmp_path, [entries] if together else [[each] for each in entries])
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])
    assert {each.state for each in verdict.windows} == {State.COMPLETE}


def test_a_file_that_is_truncated_later_is_no_copy_of_the_one_begun_anew(tmp_path: Path) -> None:
    """It keeps its inode, and begins with the same lines."""
    entries = shipped_twice(first=file("S", forgotten_before=0), agent="A")
    verdict = judged(tmp_path, [entries])
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


def test_another_host_may_have_the_same_file(tmp_path: Path) -> None:
    entries = shipped_twice()
    for each in entries[:3]:
        each["header"]["host"] = "web-2"
    verdict = judged(tmp_path, [entries])
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


def test_it_is_accepted_by_its_bytes(tmp_path: Path) -> None:
    known = {
        "topic": TOPIC,
        "partition": -1,
        "runs": [{"source": "T", "position": 0, "end_position": 5_000}],
        "from_time": None,
        "to_time": None,
        "reason": "we know",
    }
    operator = entry("operator", "operator", 0, NOW, accepted=[known])
    verdict = judged(tmp_path, [[*shipped_twice(), operator]])
    assert verdict.state is State.COMPLETE
    assert [each.accepted for each in verdict.findings] == ["we know"]

"""Rows of which no agent has spoken, and the agent that could is gone."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from audit.reconciling.findings import FaultKind, State
from audit.reconciling.topic_verdict import TopicVerdict
from audit.reconciling.verdict import reconcile
from tests.audit.audited_ledger import FIRST, NOW, judged, pictured
from tests.audit.log_entries import load, operator
from tests.audit.store.said import MINUTE, TOPIC, Json, entry, passage, run, window

TIME = FIRST + MINUTE
AGAIN = TIME + 3 * MINUTE
LOADED = FIRST + 10 * MINUTE
RETIRED = {"host": "web-1", "agent": "A", "since": FIRST, "reason": "", "operator": ""}


def agent(journal: str, *passages: Json, until: int = NOW) -> Json:
    beat = {"until": until, "topics": [TOPIC]}
    told = entry("agent", journal, 0, AGAIN, passages=passages, heartbeats=[beat])
    told["header"]["host"] = "web-1"
    return told


def whole(time: int, first: int, events: int, source: str, **more: Any) -> Json:
    runs = [run(source, 0, events, **more)]
    return passage(0, first, events, [window(time, events)]) | {"runs": runs}


def shipped_again(*, until: int = NOW, retired: bool = True) -> list[Json]:
    """A hundred lines of which nothing was said, and these once more by another agent."""
    first, second = whole(TIME, 0, 100, "S"), whole(AGAIN, 100, 100, "T")
    entries = [
        agent("B", second, until=until),
        entry("broker", "broker", 0, LOADED, passages=[first | {"runs": []}]),
        entry("broker", "broker", 1, LOADED, passages=[second | {"runs": []}]),
        load(0, first, second, time=LOADED),
    ]
    if retired:
        entries.append(entry("operator", "operator", 0, LOADED, retired=[RETIRED]))
    return entries


def states(verdict: TopicVerdict) -> list[State]:
    return [each.state for each in verdict.windows]


def test_of_a_host_with_another_agent_they_may_be_there_twice(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [[*shipped_again(), agent("A", until=FIRST)]])
    (finding,) = verdict.findings
    assert (finding.kind, finding.events) == (FaultKind.UNKNOWN, 100)
    assert finding.words == (
        "web-1: file S, events 0 to 99 are in hdfs://logs, and no agent has reported shipping"
        " them: another agent of that host may have shipped them again"
    )
    assert states(verdict) == [State.UNKNOWN, State.COMPLETE]
    assert verdict.totals.missing == verdict.totals.duplicated == 0


def test_the_end_of_a_file_of_whose_beginning_was_spoken(tmp_path: Path) -> None:
    begun = whole(TIME, 0, 60, "S", path="/var/log/app.log")
    verdict = judged(tmp_path, [[*shipped_again(), agent("A", begun, until=TIME + 30_000)]])
    (finding,) = verdict.findings
    assert (finding.kind, finding.seq, finding.events) == (FaultKind.UNKNOWN, 60, 40)
    assert finding.words.startswith("web-1: /var/log/app.log, events 60 to 99 are in hdfs://logs")
    assert finding.from_time == TIME + 30_000


def test_those_of_an_agent_that_may_still_speak(tmp_path: Path) -> None:
    both = [*shipped_again(until=LOADED - 1), agent("A", until=FIRST)]
    verdict = judged(tmp_path, [both])
    assert (verdict.state, verdict.findings) == (State.PENDING, [])
    assert states(verdict) == [State.PENDING, State.COMPLETE]
    assert "agents have yet to report events of 1 file that have landed" in [
        each.words for each in verdict.waits
    ]


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(shipped_again(retired=False), id="others number their events, too"),
        pytest.param(
            [*shipped_again(), agent("A", whole(TIME, 0, 100, "S"), until=LOADED)],
            id="it has spoken since",
        ),
    ],
)
def test_where_nothing_is_wrong(tmp_path: Path, said: list[Json]) -> None:
    verdict = judged(tmp_path, [said])
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


def test_before_files_are_looked_at_it_is_nobodys_fault(tmp_path: Path) -> None:
    """A loader asks of agents and brokers alone."""
    picture = pictured(tmp_path, [[*shipped_again(), agent("A", until=FIRST)]])
    before = replace(picture, tiers=picture.tiers[:2])
    assert reconcile(before).findings == []


def test_they_are_accepted_by_their_numbers(tmp_path: Path) -> None:
    known = operator(reason="deleted with the machine's disk", runs=[run("S", 0, 100)])
    verdict = judged(tmp_path, [[*shipped_again(), agent("A", until=FIRST), known]])
    assert verdict.state is State.COMPLETE
    assert [each.accepted for each in verdict.findings] == ["deleted with the machine's disk"]

"""A retired root of landed files: nothing is expected of it until something is loaded into it."""

import pytest

from audit.reconciling.findings import State
from audit.reconciling.verdict import reconcile
from audit.store.fleet.marks import MarksQuery
from tests.audit.audited_ledger import FIRST, KEY, NOW, AuditedLedger
from tests.audit.log_entries import TIME, agent, broker, each_way, in_chunks, lines, load, shipped
from tests.audit.store.said import HOUR, MINUTE, ROOT, TOPIC, Json, entry, passage, window

OTHER = "file:///replayed"
RETIRED = entry(
    "operator",
    *("o", 0, TIME + 2),
    retired=[{"host": OTHER, "since": TIME, "reason": "deleted", "operator": "olga"}],
)


def landed(number: int, first: int, count: int, time: int, root: str) -> Json:
    rows = passage(0, first, count, [window(TIME, count)], runs=[lines(first, count)])
    entry = load(number, rows, time=time, destination=root)
    return entry | {"header": entry["header"] | {"source": f"of-{root}"}}


def missing_file(time: int) -> Json:
    fault = {"path": "a", "hour": FIRST, "fault": "missing", "committed_rows": 9, "found_rows": 0}
    hour = {"topic": TOPIC, "from_time": FIRST, "to_time": FIRST + HOUR, "files": 1, "rows": 9}
    lists: Json = {"checked": [hour | {"faults": [fault]}]}
    lists["loads"] = [{"topic": TOPIC, "failed": True, "since": time, "reason": "no schema"}]
    return entry("hdfs", f"observer-{time}", 0, time, destination=OTHER, **lists)


BEFORE = [
    agent(0, shipped(0, 0, 100)),
    broker(0, (0, 100, TIME, 0)),
    landed(0, 0, 100, TIME + 1, ROOT),
    landed(0, 0, 40, TIME + 1, OTHER),
]


@each_way
@pytest.mark.parametrize(
    ("more", "roots", "state", "failing"),
    [
        ([], [OTHER, ROOT], State.PENDING, 0),
        ([missing_file(TIME + 1)], [OTHER, ROOT], State.MISSING, 1),
        ([RETIRED], [ROOT], State.COMPLETE, 0),
        ([missing_file(TIME + 1), RETIRED], [ROOT], State.COMPLETE, 0),
        ([RETIRED, landed(1, 40, 30, TIME + MINUTE, OTHER)], [OTHER, ROOT], State.PENDING, 0),
        ([RETIRED, missing_file(TIME + 3)], [ROOT], State.MISSING, 1),
    ],
)
def test_a_retired_root_is_not_waited_for(
    ledger: AuditedLedger,
    way: str,
    *,
    more: list[Json],
    roots: list[str],
    state: State,
    failing: int,
) -> None:
    for chunk in in_chunks([*BEFORE, *more], way):
        ledger.fold(*chunk)
    verdict = reconcile(ledger.picture())
    assert [tier.destination for tier in verdict.tiers if tier.kind == "hdfs"] == roots
    assert verdict.state == state
    assert len(ledger.reading.failing_loads()) == failing
    retired = [f"{OTHER} is retired: deleted (olga, 2025-10-09 09:01 UTC)"] * (OTHER not in roots)
    assert ledger.reading.retired_roots(KEY) == retired
    marks = ledger.reading.marks(MarksQuery(FIRST, NOW, "", TOPIC, ""))
    assert [mark.host for mark in marks if mark.kind == "retired"] == [OTHER] * (RETIRED in more)

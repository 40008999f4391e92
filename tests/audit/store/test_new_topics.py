"""A topic that was never loaded is pending if a loader says that it loads it; one that was loaded
into a retired root is not, until something is loaded into it again."""

from typing import Any

import pytest

from audit.reconciling.findings import State
from audit.reconciling.verdict import reconcile
from audit.store.fleet.marks import MarksQuery
from tests.audit.audited_ledger import DAY, FIRST, KEY, NOW, AuditedLedger
from tests.audit.log_entries import (
    agent,
    broker,
    each_way,
    in_chunks,
    lines,
    load,
    loader,
    shipped,
)
from tests.audit.store.said import ROOT, TOPIC, Json, entry, passage, window

TIME = FIRST + 60_000
OTHER_ROOT = "hdfs://former"
RETIRED = {"host": "host-of-loader", "since": TIME, "reason": "sold"}
ALL = loader(0, 0, 100, TIME, lines(0, 100))
GONE = entry("operator", "o", 0, TIME + 2, retired=[RETIRED | {"host": OTHER_ROOT}])


def loads(*topics: str, root: str = ROOT, time: int = TIME, **more: Any) -> Json:
    health = {"name": root, "started": time, "topics": [*topics], **more}
    said = entry("hdfs", f"of-{root}", 0, time, health=[health])
    return said | {"header": said["header"] | {"host": "host-of-loader"}}


@pytest.mark.parametrize(
    ("said", "roots"),
    [
        ([], []),
        ([loads("orders", "app.*")], []),
        ([loads("cl*", exclude=["click?"])], []),
        ([loads("clicks")], [ROOT]),
        ([loads("*"), loads("*", root="n" * 999)], [ROOT]),
        ([loads("*"), loads("*", root=OTHER_ROOT)], [OTHER_ROOT, ROOT]),
        ([loads("*"), loads("*", root=OTHER_ROOT, time=TIME - 2 * DAY)], [ROOT]),  # renamed
        ([loads("*", time=TIME - 31 * DAY)], []),
        ([loads("*"), entry("operator", "o", 0, TIME + 1, retired=[RETIRED])], []),
        ([loads("*"), loads("*", root=OTHER_ROOT), GONE], [ROOT]),
        ([loads("*", root=OTHER_ROOT), ALL], [ROOT]),
    ],
)
def test_a_topic_waits_for_its_first_load(
    ledger: AuditedLedger, said: list[Json], roots: list[str]
) -> None:
    ledger.fold(agent(0, shipped(0, 0, 100)), broker(0, (0, 100, TIME, 0)), *said)
    verdict = reconcile(ledger.picture())
    assert [tier.destination for tier in verdict.tiers if tier.kind == "hdfs"] == roots
    landed = not roots or said[-1].get("run") == 0
    assert (verdict.state, verdict.complete_until) == (
        (State.COMPLETE, -1) if landed else (State.PENDING, TIME)
    )
    if not landed:
        words = [wait.words for wait in verdict.waits]
        assert words[0].startswith(f"{roots[0]} has yet to load 100 offsets of 1 partition")
    assert reconcile(ledger.picture(is_deleted=True)).state == State.COMPLETE


def landed(run: int, time: int) -> Json:
    rows = passage(0, 40 * run, 40, [window(TIME, 40)], runs=[lines(40 * run, 40)])
    said = load(run, rows, time=time, destination=OTHER_ROOT)
    return said | {"header": said["header"] | {"source": OTHER_ROOT}}


def fault(time: int) -> Json:
    file = {"path": "a", "hour": FIRST, "fault": "missing", "committed_rows": 9, "found_rows": 0}
    hour = {"from_time": FIRST, "to_time": FIRST + 1, "files": 1, "rows": 9, "faults": [file]}
    failed = {"topic": TOPIC, "failed": True, "since": time}
    lists: Json = {"checked": [{"topic": TOPIC, **hour}], "loads": [failed]}
    return entry("hdfs", f"checker-{time}", 0, time, destination=OTHER_ROOT, **lists)


@each_way
@pytest.mark.parametrize(
    ("said", "state", "is_expected"),
    [
        ([], State.PENDING, True),
        ([fault(TIME + 1), GONE], State.COMPLETE, False),
        ([GONE, fault(TIME + 3)], State.MISSING, False),
        ([GONE, landed(1, TIME + 3)], State.PENDING, True),
    ],
)
def test_a_retired_root(
    ledger: AuditedLedger, way: str, said: list[Json], state: State, *, is_expected: bool
) -> None:
    said = [agent(0, shipped(0, 0, 100)), broker(0, (0, 100, TIME, 0)), ALL, landed(0, TIME), *said]
    for chunk in in_chunks(said, way):
        ledger.fold(*chunk)
    verdict, retired = reconcile(ledger.picture()), ledger.reading.retired_roots(KEY)
    roots = [tier.destination for tier in verdict.tiers if tier.kind == "hdfs"]
    assert (verdict.state, roots) == (state, [OTHER_ROOT] * is_expected + [ROOT])
    assert len(ledger.reading.failing_loads()) == (state is State.MISSING)
    assert retired == [f"{OTHER_ROOT} is retired: sold"] * (not is_expected)
    marks = ledger.reading.marks(MarksQuery(FIRST, NOW, "", TOPIC, ""))
    assert [mark.host for mark in marks if mark.kind == "retired"] == [OTHER_ROOT] * (GONE in said)

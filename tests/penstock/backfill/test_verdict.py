"""The verdict on archives: what the ledger has of them decides."""

from typing import Any

import msgspec
import pytest

from agent.files.backfill_plan import ArchiveState, ArchiveStatus, ArchiveTotal, BackfillPlan
from audit.api.answers import FailingLoad, ListPage, SourceRow, Sources
from audit.reconciling.findings import FaultKind, Finding, State
from audit.reconciling.topic_verdict import Wait
from penstock.backfill.command import Backfill, InputPlan, exit_code
from penstock.backfill.verdict import BackfillVerdict, SourcesInLedger, judge
from penstock.backfill.words import verdict_lines

NOW = 1_795_158_000_000
ROOT = "hdfs://nn/logs"
ROW = SourceRow(
    source="s1",
    path="/log/a.gz",
    agent="a1",
    host="web-1",
    shipped=[(0, 1_200)],
    landed=[(0, 1_200)],
    missing=[],
    missing_bytes=[],
    position=9_000,
    finished=True,
    lost_bytes=0,
    filtered=2,
    dead=1,
    last=NOW,
    state=State.COMPLETE,
    words=[],
    events=1_200,
    size=9_000,
)
LATER = Wait(on="hdfs", words=f"9 events are not in {ROOT} yet")
LOST = Finding(
    kind=FaultKind.LOST,
    words="web-1: /log/a.gz, bytes 0 to 512 were gone",
    source="s1",
    command="penstock audit accept t",
)
NOT_LOADED = FailingLoad(
    cluster="c", topic="t", destination=ROOT, since=NOW, said=NOW, reason="no room", cure=""
)


def read(**more: Any) -> ArchiveStatus:
    known = ArchiveStatus(
        path="/log/a.gz",
        size=100,
        millis=0,
        state=ArchiveState.READ,
        source="s1",
        events=1_201,
        position=9_000,
        read_millis=NOW,
    )
    return msgspec.structs.replace(known, **more)


def judged(
    *archives: ArchiveStatus,
    rows: tuple[SourceRow, ...] = (ROW,),
    findings: tuple[Finding, ...] = (),
    as_of: int = NOW,
    failing: tuple[FailingLoad, ...] = (),
    unlisted: tuple[tuple[str, int], ...] = (),
) -> BackfillVerdict:
    states = [archive.state for archive in archives] + [ArchiveState.READ] * len(unlisted)
    plan = BackfillPlan(
        totals=tuple(
            ArchiveTotal(state=state, archives=states.count(state), bytes=1)
            for state in set(states)
        ),
        archives=archives,
        unlisted=unlisted,
    )
    answer = Sources(
        page=ListPage(page=1, size=500, total=len(rows)),
        items=list(rows),
        as_of=as_of,
        destinations=[ROOT],
        failing_loads=list(failing),
    )
    return judge(plan, SourcesInLedger.of([answer]), {"s1": findings} if findings else {})


def row(**more: Any) -> tuple[SourceRow, ...]:
    return (msgspec.structs.replace(ROW, **more),)


COMPLETE = "complete: every line of 1 archive is accounted for: 1,200 events in hdfs://nn/logs"
ONE = "0 of 1 archive arrived"
PATH = "  … /log/a.gz: "
OTHER = "  i the lines of 1 archive were read from other files, or made no events; penstock report "
EXPIRED = "the audit does not have its source: it keeps what was shipped for its `retention`"
CASES: dict[str, tuple[BackfillVerdict, int, bool, list[str]]] = {
    "it landed": (judged(read()), 0, True, [f"✓ {COMPLETE}, 2 filtered, 1 dead-lettered"]),
    "beyond the list": (judged(unlisted=(("s1", NOW),)), 0, True, [f"✓ {COMPLETE}, 2 filtered"]),
    "not landed": (
        judged(read(), rows=row(waits=[LATER])),
        *(2, False),
        [f"… pending: {ONE}", f"{PATH}waits for the loader: {LATER.words}"],
    ),
    "not loaded": (
        judged(read(), rows=row(waits=[LATER]), failing=(NOT_LOADED,)),
        *(5, True),
        [f"! not loaded: {ONE}; no room", f"{PATH}waits for the loader: {LATER.words}"],
    ),
    "never loaded": (
        judged(read(), failing=(msgspec.structs.replace(NOT_LOADED, destination="s3a://b"),)),
        *(5, True),
        ["! not loaded: 1 of 1 archive arrived; no room"],
    ),
    "its end is not reported": (
        judged(read(position=9_500)),
        *(2, False),
        [f"… pending: {ONE}", f"{PATH}waits for an agent: its end is not reported yet"],
    ),
    "another one to read": (
        judged(read(), read(state=ArchiveState.READING, source="s2")),
        *(2, False),
        ["… pending: 1 of 2 archives arrived", "  … waits for an agent: 1 archive is to be read"],
    ),
    "not in the ledger yet": (
        judged(read(), rows=()),
        *(2, False),
        [f"… pending: {ONE}", f"{PATH}waits for the ledger: its source has not been reported yet"],
    ),
    "not in the ledger any more": (
        judged(read(), rows=(), as_of=NOW + 86_400_000),
        *(3, True),
        [f"? unknown: {ONE}", f"  ? /log/a.gz: {EXPIRED}"],
    ),
    "lost": (
        judged(read(), rows=row(lost_bytes=512), findings=(LOST,)),
        *(1, True),
        [f"✗ missing: {ONE}", f"  ✗ /log/a.gz: lost: {LOST.words} [source s1]; what to do: "],
    ),
    "accepted": (
        judged(
            read(),
            rows=row(lost_bytes=512),
            findings=(msgspec.structs.replace(LOST, accepted="known", command=""),),
        ),
        *(0, True),
        [f"✓ {COMPLETE}", f"  ✓ /log/a.gz: lost: {LOST.words} [source s1] (accepted: known)"],
    ),
    "missing, in hours that are no longer judged": (
        judged(read(), rows=row(state=State.PENDING, missing=[(7, 9), (20, 21)])),
        *(3, True),
        [f"? unknown: {ONE}", "  ? /log/a.gz: 3 events have not landed (numbers 7 to 8, 20 to 20)"],
    ),
    "its end is damaged": (
        judged(read(why="truncated"), rows=row(events=-1, size=-1, unread="a.gz: truncated")),
        *(3, True),
        [f"? unknown: {ONE}", "  ? /log/a.gz: what follows byte 9,000 is unknown: a.gz: truncated"],
    ),
    "read from another file": (
        judged(read(events=0), rows=()),
        *(6, True),
        ["· empty: no archive was read as a source of its own", f"{OTHER}t has the verdict"],
    ),
    "skipped": (
        judged(read(), read(state=ArchiveState.SKIPPED, source="")),
        *(0, True),
        [f"✓ {COMPLETE}", "  i 1 archive skipped, without a verdict"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_on_archives(case: str) -> None:
    verdict, code, is_final, lines = CASES[case]
    shown = list(verdict_lines(verdict, "t"))
    assert len(shown) == len(lines), shown
    for line, begin in zip(shown, lines, strict=True):
        assert line.startswith(begin), shown
    assert verdict.is_final is is_final
    plan = InputPlan(name="i", topic="t", backfill=BackfillPlan(), verdict=verdict)
    assert exit_code(Backfill(no_agent="", inputs=(plan,)), has_audit=True) == code

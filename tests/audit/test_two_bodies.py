"""Entries that somebody writes under the numbers of another's journal: a fault, a line in the log,
and neither of two is believed. Here it is known who wrote which."""

import logging
from pathlib import Path

import pytest

from audit.reconciling.findings import FaultKind, State
from audit.reconciling.verdict import reconcile
from tests.audit.audited_ledger import FIRST, NOW, AuditedLedger, judged
from tests.audit.log_entries import TIME, agent, broker, lines, load, shipped
from tests.audit.store.said import HOUR, Json, entry, passage, window

LINES = 10
# The agent's journal, all of whose lines have landed, and its next entry: what it has lost.
BEGUN = [
    agent(0, shipped(0, 0, LINES), until=FIRST),
    broker(0, (0, LINES, TIME, 0)),
    load(1, passage(0, 0, LINES, [window(TIME, LINES)], runs=[lines(0, LINES)], leader_epoch=0)),
]
TRUE = agent(1, until=FIRST + HOUR, time=TIME + 1)
FORGED = agent(1, until=NOW, time=TIME + 2)
OF_LATER_VERSION = FORGED | {"version": 99}
OF_AN_OPERATOR = entry("operator", "agent", 1, TIME)


@pytest.mark.parametrize("forged", [FORGED, OF_LATER_VERSION, OF_AN_OPERATOR])
@pytest.mark.parametrize("chunks", ["forged first", "true first", "together"])
def test_neither_of_two_is_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, forged: Json, chunks: str
) -> None:
    two = [[forged], [TRUE]] if chunks == "forged first" else [[TRUE], [forged]]
    two = [[TRUE, forged]] if chunks == "together" else two
    with caplog.at_level(logging.WARNING, "audit"):
        verdict = judged(tmp_path, [BEGUN, *two])
    assert verdict.state is State.MISSING
    assert not any(each.state is State.COMPLETE for each in verdict.windows)
    (finding,) = [each for each in verdict.findings if each.kind is FaultKind.UNPROVEN]
    assert (finding.source, finding.seq, finding.host) == ("agent", 1, "host-of-agent")
    assert finding.words == (
        "entry 1 in the journal agent of the agent on host-of-agent: there are two that contradict"
        " each other, and neither is believed; nothing is proven from 2025-10-09 09:01:00 on"
    )
    (line,) = [each.getMessage() for each in caplog.records]
    assert "two different entries under one number" in line
    assert "journal='agent' seq=1" in line


def test_the_same_entry_again_is_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also one that was written with another version of the schema, as columns are the same."""
    said = [*BEGUN, agent(1, until=NOW)]
    with caplog.at_level(logging.WARNING, "audit"):
        verdict = judged(tmp_path, [said, said, said[::-1], [said[-1], said[-1]]])
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])
    assert not caplog.records


def test_hours_are_judged_again_when_the_second_comes(tmp_path: Path) -> None:
    """Although nothing of it is folded; and when all of it is read again, there is one finding."""
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        ledger.fold(*BEGUN, agent(1, until=NOW))
        assert reconcile(ledger.picture()).state is State.COMPLETE
        touched = ledger.fold(agent(1, until=FIRST))
        assert {hour for _, hour in touched.hours} == {FIRST}
        ledger.fold(*BEGUN, agent(1, until=NOW), agent(1, until=FIRST))
        assert len(reconcile(ledger.picture()).findings) == 1
        ledger.store.expire(NOW + 1000)
        assert len(reconcile(ledger.picture()).findings) == 1

"""Whether the ledger was read from its own beginning, by where those who were heard first began."""

from collections.abc import Sequence

import pytest

from tests.audit.audited_ledger import AuditedLedger
from tests.audit.store.said import BEGIN, HOUR, MINUTE, entry, passage, window

Heard = tuple[str, str, int]  # tier, journal, the first number that there is

NEW = [("hdfs", f"loader-{each}", 0) for each in range(5)]
OLD = [("agent", "agent-1", 17), ("agent", "agent-2", 9), ("agent", "agent-3", 0)]


@pytest.mark.parametrize(
    ("heard", "known"),
    [
        (OLD, False),
        ([*OLD, *NEW], False),  # runs and counters that begin with the topic say nothing
        ([("agent", "agent-1", 17), ("agent", "agent-2", 0), ("agent", "agent-3", 0)], True),
        ([*NEW, ("broker", "broker-1", 5)], True),
        ([("broker", "broker-1", 5)], False),
    ],
)
def test_who_was_there_before(ledger: AuditedLedger, heard: Sequence[Heard], known: bool) -> None:
    said = [passage(0, 0, 10, [window(BEGIN, 10)])]
    ledger.fold(*(entry(tier, name, seq, BEGIN, passages=said) for tier, name, seq in heard))
    seen = ledger.picture(BEGIN - HOUR, BEGIN + MINUTE, BEGIN + HOUR)
    assert bool(seen.windows) == bool(seen.holes) == known

"""The verdict about topics that were deleted: lines that a loader of the topic had not landed are
missing until an operator accepts them."""

from typing import NamedTuple

import pytest

from audit.configuration.config import CommandsConfig
from audit.cures.fault_cures import cure_for
from audit.reconciling.picture import TopicKey
from audit.reconciling.topic_verdict import settled
from audit.reconciling.verdict import reconcile
from tests.audit.audited_ledger import FIRST, KEY, AuditedLedger
from tests.audit.log_entries import agent, broker, lines, loader, operator, shipped
from tests.audit.store.said import HOUR, MINUTE, TOPIC_ID, Json

TIME = FIRST + MINUTE
OTHER_ID = "BBBBBBBBBBBBBBBBBBBBBB"


class Example(NamedTuple):
    """Lines of a deleted topic. `other`: when another topic of its name was loaded."""

    counted: int  # by brokers
    landed: int
    missing: tuple[tuple[str, int], ...] = ()
    other: int = 0

    def entries(self) -> list[Json]:
        said = [agent(0, shipped(0, 0, 100)), broker(0, (0, self.counted, TIME, 0))]
        if self.landed:
            said.append(loader(0, 0, self.landed, TIME, lines(0, self.landed)))
        if self.other:
            said.append(_renamed(loader(0, 0, 9, self.other, lines(0, 9, "other"))))
        return said


def _renamed(entry: Json) -> Json:
    (passage,) = entry["passages"]
    return entry | {"passages": [passage | {"topic_id": OTHER_ID}]}


EXAMPLES = {
    "landed": Example(100, 100),
    "partly": Example(100, 40, (("hdfs", 60),)),
    "landed, not counted": Example(40, 100),
    "neither landed nor counted": Example(40, 40, (("broker", 60),)),
    "not loaded": Example(100, 0),
    "not loaded, its former was": Example(100, 0, (("hdfs", 100),), other=FIRST),
    "not loaded, its successor was": Example(100, 0, other=FIRST + HOUR),
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_lines_that_were_deleted_before_they_landed_are_missing(
    ledger: AuditedLedger, example: Example
) -> None:
    ledger.fold(*example.entries())

    def missing(key: TopicKey = KEY) -> list[tuple[str, int]]:
        verdict = settled(reconcile(ledger.picture(key=key, is_deleted=True)))
        faults = [finding for finding in verdict.findings if finding.is_open]
        assert (verdict.state == "missing") == bool(faults), verdict.findings
        assert verdict.totals.missing == sum(finding.count for finding in faults)
        for finding in faults:
            assert finding.words.endswith("the log has lost them: the topic was deleted")
            cure = cure_for(finding, KEY, CommandsConfig()).command
            assert cure.startswith("penstock audit accept clicks")
            assert f"--topic-id {TOPIC_ID}" in cure
        return [(finding.tier, finding.count) for finding in faults]

    assert missing() == [*example.missing]
    assert reconcile(ledger.picture()).findings == [], "while the topic exists"
    if not example.missing:
        return
    if example.landed:  # a loader had read them before, and reports late
        left = 100 - example.landed
        ledger.fold(loader(1, example.landed, left, TIME, lines(example.landed, left)))
    else:
        ledger.fold(operator(from_time=0, topic_id=TOPIC_ID))
    assert missing() == []

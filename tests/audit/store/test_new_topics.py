"""The verdict about a topic that was never loaded: pending if a loader says that it loads it."""

from typing import Any

import pytest

from audit.reconciling.findings import State
from audit.reconciling.verdict import reconcile
from tests.audit.audited_ledger import DAY, FIRST, AuditedLedger
from tests.audit.log_entries import agent, broker, lines, loader, shipped
from tests.audit.store.said import ROOT, Json, entry

TIME = FIRST + 60_000
OTHER_ROOT = "hdfs://former"
RETIRED = {"host": "host-of-loader", "since": TIME, "reason": "sold"}


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
        ([loads("*", root=OTHER_ROOT), loader(0, 0, 100, TIME, lines(0, 100))], [ROOT]),
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

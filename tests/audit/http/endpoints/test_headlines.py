"""When the headline of a pending verdict is calm."""

from typing import Any

import pytest
from msgspec.structs import replace

from audit.alerting.conditions import AlertKey, Condition
from audit.clusters.state import AuditState, ClusterState
from audit.configuration.config import AuditConfig
from audit.http.endpoints.headlines import is_settled
from audit.reconciling.picture import TopicKey
from audit.service.service import Service
from audit.store.judged_hours import HOUR, TopicFigures

NOW = 500_000 * HOUR
MINUTE = 60_000
READ = ClusterState(read=True, as_of=NOW)


def figures(waits: int, unreported: int = -1) -> TopicFigures:
    """Of a topic whose first open window ended so long ago; -1: it has none."""
    ends = [NOW - each if each >= 0 else -1 for each in (waits, unreported)]
    topic = TopicKey("local", "shop", "id")
    return TopicFigures(topic, pending_since=ends[0], unreported_since=ends[1])


def alert(kind: str, cluster: str = "local", takes_none: str = "") -> dict[AlertKey, Condition]:
    condition = Condition("", leaderless=frozenset(filter(None, [takes_none])))
    return {AlertKey(kind, cluster, "", "web-1"): condition}


@pytest.mark.parametrize(
    ("changed", "settled"),
    [
        ({}, True),
        ({"figures": [figures(2 * MINUTE, 2 * MINUTE)]}, True),
        ({"figures": [figures(20 * HOUR, 2 * MINUTE)]}, True),  # a loader is started once a day
        ({"figures": [figures(25 * HOUR)]}, False),
        ({"figures": [figures(10 * MINUTE, 10 * MINUTE)]}, False),
        ({"alert_conditions": alert("silent")}, False),
        ({"alert_conditions": alert("silent", "elsewhere")}, True),
        ({"alert_conditions": alert("clock", "")}, False),
        ({"alert_conditions": alert("inputs")}, False),
        ({"alert_conditions": alert("certificate")}, True),
        ({"alert_conditions": alert("disk")}, True),
        ({"alert_conditions": alert("disk", takes_none="clicks")}, False),
        ({"done_until": {"local": NOW - 5 * MINUTE}}, False),  # an agent stands still
        ({"cluster": replace(READ, read=False)}, False),
        ({"cluster": replace(READ, as_of=NOW - 10 * MINUTE)}, False),
        ({"cluster": replace(READ, unreachable="connection refused")}, False),
    ],
)
def test_green_is_what_is_recent_and_not_held_up(changed: dict[str, Any], *, settled: bool) -> None:
    state = AuditState({"local": changed.pop("cluster", READ)})
    known = {"done_until": {"local": NOW - 2 * MINUTE}} | changed
    asked = Service(AuditConfig(data_dir="unused"), state, **known)
    assert is_settled(asked, "local", NOW) is settled

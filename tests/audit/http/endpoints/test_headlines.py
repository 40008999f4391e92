"""When the headline of a pending verdict is calm."""

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


def alert(kind: str, cluster: str = "local") -> dict[AlertKey, Condition]:
    return {AlertKey(kind, cluster, "", "web-1"): Condition("")}


def service(cluster: ClusterState = READ) -> Service:
    done = {"local": min(cluster.as_of, NOW - 2 * MINUTE)}
    state = AuditState({"local": cluster})
    return Service(AuditConfig(data_dir="unused"), state, done_until=done)


@pytest.mark.parametrize(
    ("figures", "settled"),
    [
        (figures(2 * MINUTE, 2 * MINUTE), True),
        (figures(20 * HOUR, 2 * MINUTE), True),  # a loader that is started once a day
        (figures(25 * HOUR), False),
        (figures(10 * MINUTE, 10 * MINUTE), False),
    ],
)
def test_only_a_loader_may_take_hours(figures: TopicFigures, *, settled: bool) -> None:
    asked = service()
    asked.figures = [figures]
    assert is_settled(asked, "", NOW) is settled


@pytest.mark.parametrize(
    ("conditions", "settled"),
    [
        (alert("silent"), False),
        (alert("silent", "elsewhere"), True),
        (alert("clock", ""), False),
        (alert("certificate"), True),
    ],
)
def test_not_while_lines_may_be_held_up(
    conditions: dict[AlertKey, Condition], *, settled: bool
) -> None:
    asked = service()
    asked.alert_conditions = conditions
    assert is_settled(asked, "local", NOW) is settled


def test_not_while_an_agent_stands_still() -> None:
    asked = service()
    asked.done_until = {"local": NOW - 5 * MINUTE}
    assert not is_settled(asked, "local", NOW)


@pytest.mark.parametrize(
    "cluster",
    [
        replace(READ, read=False),
        replace(READ, as_of=NOW - 10 * MINUTE),
        replace(READ, unreachable="connection refused"),
    ],
)
def test_not_while_the_ledger_is_not_known_up_to_now(cluster: ClusterState) -> None:
    assert not is_settled(service(cluster), "", NOW)

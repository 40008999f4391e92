"""Lags over time: what was measured, what was not, and how much of it is kept."""

from audit.api.answers import LagPoint
from audit.store.fleet.lags import (
    AGENT,
    FILES,
    GROUP,
    MOST_SERIES,
    LagsOverTime,
    LagsQuery,
    MeasuredLag,
)
from tests.audit.audited_ledger import DAY, AuditedLedger
from tests.audit.store.said import CLUSTER, HOUR, MINUTE, TOPIC, entry

NOW = 1_790_000_000_000 // DAY * DAY
KINDS = [(kind, CLUSTER) for kind in (AGENT, GROUP, FILES)]


def group(name: str, amount: int, topic: str = TOPIC, behind: int = -1) -> MeasuredLag:
    return MeasuredLag(GROUP, CLUSTER, topic, name, amount, behind)


def shown(
    ledger: AuditedLedger, from_time: int, to_time: int, *, topic: str = TOPIC, host: str = ""
) -> LagsOverTime:
    return ledger.reading.lags(LagsQuery(CLUSTER, topic, host, from_time, to_time))


def test_a_lag_that_is_over_and_a_time_without_measurement(ledger: AuditedLedger) -> None:
    keep = ledger.store.keep_measured
    files = MeasuredLag(FILES, CLUSTER, TOPIC, "hdfs://logs", 30)
    keep(NOW + 5, KINDS, [group("etl", 7, behind=900), group("etl", 5, "other"), files], [])
    keep(NOW + MINUTE, KINDS, [group("etl", 0)], [])
    keep(NOW + 2 * MINUTE, [(FILES, CLUSTER)], [group("etl", 9), files], [])  # groups are not known
    found = shown(ledger, NOW, NOW + HOUR)
    first, second, third = NOW, NOW + MINUTE, NOW + 2 * MINUTE
    assert found.measured == {
        AGENT: [first, second],
        GROUP: [first, second],
        FILES: [first, second, third],
    }
    assert [(each.kind, each.name, each.points) for each in found.series] == [
        (FILES, "hdfs://logs", [LagPoint(first, 30, -1), LagPoint(third, 30, -1)]),
        (GROUP, "etl", [LagPoint(first, 7, 900)]),
    ]


def test_agents_lag_by_host(ledger: AuditedLedger) -> None:
    for journal, lag in (("a", 40), ("b", 0), ("c", -1)):
        beat = {"until": NOW, "topics": [TOPIC], "lag_bytes": lag}
        ledger.fold(entry("agent", journal, 0, NOW, heartbeats=[beat]))
    lags = ledger.reading.agent_lags()
    assert lags == [MeasuredLag(AGENT, CLUSTER, "", "host-of-a", 40)]
    ledger.store.keep_measured(NOW, KINDS, lags, [])
    for host, points in (("host-of-a", [LagPoint(NOW, 40, -1)]), ("host-of-b", [])):
        found = shown(ledger, NOW, NOW + HOUR, topic="", host=host)
        assert [point for series in found.series for point in series.points] == points
        assert found.measured[AGENT] == [NOW]


def test_the_greatest_of_ten_minutes_is_kept_after_a_day(ledger: AuditedLedger) -> None:
    for minute in range(25):
        lag = group("etl", 100 if minute == 13 else 1)
        ledger.store.keep_measured(NOW + minute * MINUTE, KINDS, [lag], [])
    for later in (DAY, DAY + HOUR, DAY + HOUR):  # in the first half nothing is a day old
        ledger.store.expire(NOW + later)
        found = shown(ledger, NOW, NOW + HOUR)
        amounts = [point.amount for point in found.series[0].points]
        assert amounts == ([1] * 13 + [100] + [1] * 11 if later == DAY else [1, 100, 1])
    assert found.measured[GROUP] == [NOW, NOW + 10 * MINUTE, NOW + 20 * MINUTE]
    assert ledger.store.expire(NOW + 9 * DAY) > 0
    assert shown(ledger, NOW, NOW + HOUR) == LagsOverTime(MINUTE * 10, {}, [])


def test_those_with_most_are_kept(ledger: AuditedLedger) -> None:
    many = [group(f"g{at}", at + 1, f"t{at}") for at in range(MOST_SERIES + 1)]
    ledger.store.keep_measured(NOW, KINDS, many, [])
    assert shown(ledger, NOW, NOW + HOUR, topic="t0").series == []
    (kept,) = shown(ledger, NOW, NOW + HOUR, topic="t1").series
    assert kept.points == [LagPoint(NOW, 2, -1)]


def test_many_days_in_few_points(ledger: AuditedLedger) -> None:
    for day in range(7):
        ledger.store.keep_measured(NOW + day * DAY, KINDS, [group("etl", day + 1)], [])
    found = shown(ledger, NOW, NOW + 7 * DAY)
    assert found.step == 26 * MINUTE
    assert [point.amount for point in found.series[0].points] == [1, 2, 3, 4, 5, 6, 7]

"""What is raised about many hours, or about clusters that are not read."""

from msgspec.structs import replace

from audit.alerting.alerting import Alerting
from audit.api.queries import AlertsQuery
from audit.clusters.state import AuditState, ClusterState
from audit.configuration.config import AlertsConfig, AuditConfig
from audit.http.endpoints.alerts import alerts
from audit.reconciling.findings import State
from audit.reconciling.picture import TopicKey
from audit.service.service import Service
from audit.store.judged_hours import HOUR, HourVerdict
from audit.store.rows import JudgedHour
from ledger.health import HealthProbe
from tests.audit.audited_ledger import AuditedLedger

CONFIG = AuditConfig(data_dir="/d", alerts=AlertsConfig(after=0, keep_for=0, silent=1e9, disk=0))
WORDS = "east/t0 has missing events in the hour 1970-01-01T00:00Z: web-1: gone"
OUTAGE = [
    HourVerdict(JudgedHour(TopicKey("east", f"t{topic}", ""), hour * HOUR, "missing"), faults)
    for topic in range(100)
    for hour in range(24)
    for faults in [{State.MISSING: "web-1: gone"}]
]


def test_an_outage_is_raised_once_and_resolved_once(ledger: AuditedLedger) -> None:
    standing = AuditState({"east": ClusterState(read=True, as_of=5)})

    def started() -> Alerting:
        return Alerting(ledger.store, ledger.reading, CONFIG, standing)

    first = started()
    assert first.judge(OUTAGE, {"east": 5}, 1_000)
    assert not first.judge(OUTAGE, {"east": 5}, 1_001)
    assert (first.raised, len(first.groups)) == (len(OUTAGE), 100)
    second = started()
    assert second.raised == len(OUTAGE)
    assert not second.judge(OUTAGE, {"east": 5}, 1_002)
    assert second.judge([], {"east": 5}, 1_003)
    assert (second.raised, second.groups, started().raised) == (0, {}, 0)


def test_a_condition_that_comes_and_goes_is_one_alert(ledger: AuditedLedger) -> None:
    """It lasts until the condition has been gone for `keep_for`, also over a restart."""
    read = {"east": 5}
    standing = AuditState({"east": ClusterState(read=True, as_of=5)})
    config = replace(CONFIG, alerts=replace(CONFIG.alerts, keep_for=60))
    alerting = Alerting(ledger.store, ledger.reading, config, standing)
    fault = OUTAGE[:1]
    for second, hours, ending in (
        *((0, fault, []), (50, [], [50]), (100, fault, []), (159, [], [159]), (218, [], [159])),
        *((219, [], []), (220, fault, []), (230, [], [230])),
    ):
        alerting.judge(hours, read, second * 1_000)
        assert [e.since // 1_000 for e in alerting.ending.values()] == ending, second
        shown = [word for group in alerting.groups.values() for word in group.notice.words]
        assert shown == [WORDS] * (second != 219)
        assert len(alerting.conditions) == len(hours), "it is not said to stand"
    service = Service(config, standing, HealthProbe("0.1"))
    service.reads(ledger.reading)
    service.alerts_ending = alerting.ending
    (row,) = alerts(service, AlertsQuery(state="raised")).items
    over = f"{WORDS}; over since 1970-01-01 00:03:50 UTC"
    assert (row.words, row.over_since, row.command) == (over, 230_000, "")
    again = Alerting(ledger.store, ledger.reading, config, standing)
    again.judge([], read, 240_000)
    assert again.raised == 1
    again.judge([], read, 300_000)
    assert again.raised == 0
    _, kept = ledger.reading.alerts(AlertsQuery())
    assert [(row.raised, row.resolved) for row in kept] == [(220_000, 300_000), (0, 219_000)]


def test_what_is_raised_about_a_cluster_stays_while_it_is_not_read(ledger: AuditedLedger) -> None:
    clusters = {"east": ClusterState(read=True, as_of=5), "west": ClusterState(read=True)}
    alerting = Alerting(ledger.store, ledger.reading, CONFIG, AuditState(clusters))
    both = {"east": 5, "west": 5}
    assert alerting.judge(OUTAGE[:3], both, 1_000)
    assert not alerting.judge([], {"west": 6}, 1_001)
    assert alerting.raised == 3
    assert alerting.judge([], both, 1_002)
    assert alerting.raised == 0
    clusters["east"] = ClusterState(unreachable="refused", registry_away="", registry_looked=1_003)
    assert alerting.judge([], {"west": 7}, 1_003)
    for after_a_start, raised in ((ClusterState(), 1), (ClusterState(looked=1), 1),
                                  (ClusterState(looked=1, registry_away=""), 0)):  # fmt: skip
        clusters["east"] = after_a_start
        alerting.judge([], {"west": 8}, 1_004)
        assert alerting.raised == raised

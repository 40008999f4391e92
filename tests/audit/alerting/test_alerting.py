"""What is raised about many hours, or about clusters that are not read."""

from msgspec.structs import replace

from audit.alerting.alerting import Alerting
from audit.alerting.receivers import Receivers, Situation
from audit.api.queries import AlertsQuery
from audit.clusters.state import AuditState, ClusterState
from audit.configuration.config import AlertsConfig, AuditConfig
from audit.http.endpoints.alerts import alerts
from audit.programs import moment
from audit.reconciling.findings import FaultKind, KindCount, State
from audit.reconciling.picture import TopicKey
from audit.service.service import Service
from audit.store.judged_hours import HOUR, HourVerdict
from audit.store.rows import JudgedHour
from ledger.health import HealthProbe
from tests.audit.audited_ledger import AuditedLedger

CONFIG = AuditConfig(data_dir="/d", alerts=AlertsConfig(after=0, keep_for=0, silent=1e9, disk=0))
OUTAGE = [
    HourVerdict(JudgedHour(TopicKey("east", f"t{topic}", ""), hour * HOUR, "missing"), faults)
    for topic in range(100)
    for hour in range(24)
    for faults in [{State.MISSING: "web-1: gone"}]
]


class OfferedLast(Receivers):
    last = Situation()

    def offer(self, situation: Situation) -> None:
        self.last = situation


def test_an_outage_that_comes_and_goes_is_raised_once(ledger: AuditedLedger) -> None:
    """It is resolved once it has been gone for `keep_for`, also over a restart."""
    standing = AuditState({"east": ClusterState(read=True, as_of=5)})
    config = replace(CONFIG, alerts=replace(CONFIG.alerts, keep_for=60))
    service = Service(config, standing, HealthProbe("0.1"))
    service.reads(ledger.reading)
    for second, hours, since in (
        *((0, OUTAGE, -1), (50, [], 50), (100, OUTAGE, -1), (159, [], 159), (218, [], 159)),
        *((219, [], -1), (220, OUTAGE, -1), (230, [], 230), (290, [], -1)),
    ):
        if second in {0, 230}:
            alerting = Alerting(ledger.store, ledger.reading, config, standing)
            assert alerting.raised == len(OUTAGE) * (second > 0)
        alerting.judge(hours, {"east": 5}, second * 1_000)
        is_raised = second not in {219, 290}
        assert {e.since // 1_000 for e in alerting.ending.values()} == {since} - {-1}, second
        assert (alerting.raised, len(alerting.groups)) == (2_400 * is_raised, 100 * is_raised)
        assert len(alerting.conditions) == len(hours), "what is over is not said to stand"
        service.alerts_ending = alerting.ending
        row = alerts(service, AlertsQuery(state="raised" if is_raised else "resolved")).items[0]
        assert row.over_since == (1_000 * since if since >= 0 else -1)
        assert row.words.endswith(f"; over since {moment(row.over_since)}") == (since >= 0)
    assert ledger.reading.alerts(AlertsQuery())[0].total == 2 * len(OUTAGE)


def test_a_fault_that_is_over_was_accepted_or_mended(ledger: AuditedLedger) -> None:
    receivers = OfferedLast()
    standing = AuditState({"east": ClusterState(read=True, as_of=5)})
    alerting = Alerting(ledger.store, ledger.reading, CONFIG, standing, receivers=receivers)
    alerting.judge(OUTAGE[:26], {"east": 5}, 1_000)
    lost = KindCount(kind=FaultKind.LOST, findings=1, events=952)
    other = KindCount(kind=FaultKind.CHANGED, findings=1, events=1)
    key, hour = OUTAGE[25].judged[:2]
    ledger.store.judged([JudgedHour(key, hour, "complete", accepted=(other, lost))])
    alerting.judge([], {"east": 5}, 1_001)
    accepted = "except for 952 lost lines (accepted)"
    assert sorted(receivers.last.endings.values()) == [accepted, "mended"]
    for now, hours in ((1_002, OUTAGE[24:25]), (1_003, [])):
        alerting.judge(hours, {"east": 5}, now)
    assert set(receivers.last.endings.values()) == {"mended"}


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

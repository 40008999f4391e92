"""What is raised about many hours, or about clusters that are not read."""

from audit.alerting.alerting import Alerting
from audit.alerting.receivers import Receivers, Situation
from audit.clusters.state import AuditState, ClusterState
from audit.configuration.config import AlertsConfig, AuditConfig
from audit.reconciling.findings import FaultKind, KindCount, State
from audit.reconciling.picture import TopicKey
from audit.store.judged_hours import HOUR, HourVerdict
from audit.store.rows import JudgedHour
from tests.audit.audited_ledger import AuditedLedger

CONFIG = AuditConfig(data_dir="/d", alerts=AlertsConfig(after=0, silent=1e9, disk=0))
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

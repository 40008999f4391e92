"""Very many at once: one outage over a hundred topics and a day."""

from collections.abc import Iterator

import pytest

from audit.alerting.alerting import Alerting
from audit.alerting.messages import MOST_AT_ONCE
from audit.alerting.webhook import Webhook
from audit.config import AlertsConfig, AuditConfig
from audit.findings import State
from audit.judged_hours import HOUR, HourVerdict
from audit.picture import TopicKey
from audit.standing import ClusterStanding, Standing
from audit.store.rows import JudgedHour
from harness.waiting import wait_until
from tests.audit.alerting.listener import Listener
from tests.audit.audited_ledger import AuditedLedger

TOPICS = 100
HOURS = 24
ALL = TOPICS * HOURS
CONFIG = AuditConfig(data_dir="/d", alerts=AlertsConfig(after=0, silent=1e9))
OUTAGE = [
    HourVerdict(JudgedHour(TopicKey("east", f"t{topic}", ""), hour * HOUR, "missing"), faults)
    for topic in range(TOPICS)
    for hour in range(HOURS)
    for faults in [{State.MISSING: "web-1: gone"}]
]


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as opened:
        yield opened


@pytest.fixture
def webhook(listener: Listener) -> Iterator[Webhook]:
    started = Webhook(listener.url)
    started.start()
    yield started
    started.stop()


def tell(told: Alerting, count: int) -> None:
    """Until whoever listens has had so many, and the store knows."""

    def had() -> bool:
        told.tell(1_000)
        return told.posts[0] * MOST_AT_ONCE >= count

    wait_until(had, what=f"{count} are told")


@pytest.mark.not_quick("kills very many alerters")
def test_an_outage_is_told_in_order_whatever_is_killed(
    ledger: AuditedLedger, listener: Listener, webhook: Webhook
) -> None:
    standing = Standing({"east": ClusterStanding(read=True, as_of=5)})

    def started() -> Alerting:
        return Alerting(ledger.store, ledger.reading, CONFIG, standing, webhook)

    first = started()
    assert first.judge(OUTAGE, {"east": 5}, 1_000)
    assert not first.judge(OUTAGE, {"east": 5}, 1_001)
    tell(first, ALL)
    second = started()
    assert second.raised == ALL
    assert not second.judge(OUTAGE, {"east": 5}, 1_002)
    assert second.judge([], {"east": 5}, 1_003)
    tell(started(), ALL)  # what is over
    said = [each for post in listener.posts for each in post["alerts"]]
    assert {len(post["alerts"]) for post in listener.posts} == {MOST_AT_ONCE}
    begun, over = said[:ALL], said[ALL:]
    for half, status in ((begun, "raised"), (over, "resolved")):
        assert {each["status"] for each in half} == {status}
        assert [each["hour"] // HOUR for each in half] == sorted(list(range(HOURS)) * TOPICS)
    assert len({each["id"] for each in begun}) == ALL
    assert [each["id"] for each in over] == [each["id"] for each in begun]


def test_what_is_raised_about_a_cluster_stays_while_it_is_not_read(ledger: AuditedLedger) -> None:
    clusters = {"east": ClusterStanding(read=True, as_of=5), "west": ClusterStanding(read=True)}
    alerting = Alerting(ledger.store, ledger.reading, CONFIG, Standing(clusters), None)
    both = {"east": 5, "west": 5}
    assert alerting.judge(OUTAGE[:3], both, 1_000)
    assert not alerting.judge([], {"west": 6}, 1_001)
    assert alerting.raised == 3
    assert alerting.judge([], both, 1_002)
    assert alerting.raised == 0

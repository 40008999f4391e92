"""What Grafana and Prometheus are given of brokers: figures that there are, rules that fire."""

from pathlib import Path

import yaml

from broker.groups.membership.values import State
from broker.groups.metrics import GroupCounts
from broker.monitoring.metrics import BrokerMetrics
from broker.replicas.replication_status import CopyingFigures, figures
from cluster.values import ClusterSnapshot
from tests.deploy.dashboards import DASHBOARD, RULES, check_layout, spoken_of
from tests.deploy.mirror_alerts import check_alerts, promtool

JOB = 'job="dc1"'
ONE = f'{JOB},instance="a"'
PARTITION = f'{ONE},topic="views",partition="0"'
FIRED = {
    "PenstockNoBrokers": {},
    "PenstockBrokersAway": {f"brokers_away{{{ONE}}}": 1},
    "PenstockNoController": {f"is_controller{{{ONE}}}": 0},
    "PenstockZooKeeperUnreachable": {f"zookeeper_connected{{{ONE}}}": 0},
    "PenstockPartitionsWithoutLeader": {f"partitions_without_leader{{{ONE}}}": 2},
    "PenstockNotEnoughInSync": {f"below_min_in_sync_partitions{{{ONE}}}": 1},
    "PenstockUnderReplicated": {f"under_replicated_partitions{{{ONE}}}": 1},
    "PenstockNotCopied": {f"leaders_in_trouble{{{ONE}}}": 1, f"uncopied_partitions{{{ONE}}}": 0},
    "PenstockPartitionOffline": {f"partition_online{{{PARTITION}}}": 0},
    "PenstockMessagesLost": {f"withdrawals{{{PARTITION}}}": 1},
    "PenstockDamagedBatches": {f"damaged_batches_total{{{PARTITION}}}": 1},
}
"""The figures at which each rule fires. Where all is well, they are as below."""
WELL = {
    f"is_controller{{{ONE}}}": 1,
    f"zookeeper_connected{{{ONE}}}": 1,
    **dict.fromkeys(
        (
            f"{name}{{{ONE}}}"
            for name in (
                *("brokers_away", "partitions_without_leader", "below_min_in_sync_partitions"),
                *("under_replicated_partitions", "leaders_in_trouble", "uncopied_partitions"),
            )
        ),
        0,
    ),
    f"partition_online{{{PARTITION}}}": 1,
}


def names() -> set[str]:
    """All that a scrape of a broker may have."""
    metrics = BrokerMetrics(
        tuple,
        more=lambda: figures(
            ClusterSnapshot(),
            is_controller=True,
            is_connected=True,
            copying=CopyingFigures(),
            throttles={},
        ),
    )
    suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}
    return {
        family.name + suffix
        for family in (*metrics.families(), *GroupCounts().families([(State.STABLE, 1)]))
        for suffix in suffixes.get(family.type, [""])
    }


def test_every_name_is_a_metric() -> None:
    assert spoken_of(DASHBOARD + RULES.read_text()) <= names()


def test_the_dashboard_is_laid_out() -> None:
    check_layout(DASHBOARD)


def test_rules_are_as_prometheus_wants_them() -> None:
    assert f"{len(FIRED)} rules found" in promtool("check", "rules", str(RULES))


def test_each_rule_fires_when_it_should_and_no_other_time(tmp_path: Path) -> None:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    assert {rule["alert"] for rule in group["rules"]} == FIRED.keys()
    stories = [(series(WELL), set[str]())]
    for alert, changes in FIRED.items():
        stories.append((series(WELL | changes) if changes else {}, {alert}))
    check_alerts(tmp_path, *stories, rules=RULES)


def series(values: dict[str, int]) -> dict[str, str]:
    return {f"penstock_broker_{name}": f"{value}x90" for name, value in values.items()}

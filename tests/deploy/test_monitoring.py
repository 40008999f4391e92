"""What Grafana and Prometheus are given of brokers and mirrors: figures that there are, rules that
fire."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml

from broker.groups.membership.values import State
from broker.groups.metrics import GroupCounts
from broker.monitoring.metrics import BrokerMetrics
from broker.replicas.replication_status import CopyingFigures, figures
from cluster.values import ClusterSnapshot
from ground.signatures.keys import SigningKey
from mirror.comparing.comparison import Comparison
from mirror.config import MirrorConfig
from mirror.monitoring.metrics import MirrorMetrics
from mirror.monitoring.status import MirrorStatus
from tests.deploy.dashboards import DASHBOARD, DEPLOY, RULES, check_layout
from tests.deploy.mirror_alerts import RULES as MIRROR_RULES
from tests.deploy.mirror_alerts import check_alerts, promtool

CONFIG = DEPLOY.parent / "docs" / "samples" / "mirror-minimal.yaml"

# Figures by series where all is well, and those at which each rule fires; None: there is none.
ONE = 'job="dc1",instance="a"'
PARTITION = f'{ONE},topic="views",partition="0"'
BROKER_FIRED = {
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
IS_WELL_AT_1 = ("is_controller", "zookeeper_connected", "partition_online")
BROKER_WELL = {
    name: int(name.startswith(IS_WELL_AT_1)) for each in BROKER_FIRED.values() for name in each
}

INSTANCE = 'instance="a"'
READY = f"penstock_mirror_ready{{{INSTANCE}}}"
MIRROR_WELL = {
    READY: "1x90",
    f'penstock_mirror_partitions{{{INSTANCE},stage="stopped"}}': "0x90",
    f'penstock_mirror_partitions{{{INSTANCE},stage="waiting"}}': "0 3x5 0x84",  # a leader moved
    f'penstock_mirror_partitions{{{INSTANCE},stage="copying"}}': "9x90",
    f'penstock_mirror_lag_seconds{{{INSTANCE},topic="t",partition="0"}}': "0 700x3 5x86",
    f'penstock_certificate_expires_seconds{{{INSTANCE},file="f"}}': "9000000x90",
}
MIRROR_FIRED: dict[str, dict[str, str | None]] = {
    "PenstockMirrorAbsent": {READY: None},
    "PenstockMirrorNotReady": {READY: "0x90"},
    "PenstockMirrorStopped": {
        f'penstock_mirror_partitions{{{INSTANCE},stage="stopped"}}': "1x90",
    },
    "PenstockMirrorDiffers": {
        f'penstock_mirror_different{{{INSTANCE},topic="t",partition="0"}}': "0x9 1x80",
    },
    "PenstockMirrorBehind": {
        f'penstock_mirror_lag_seconds{{{INSTANCE},topic="t",partition="0"}}': "0+60x90",
    },
    "PenstockMirrorWaits": {
        f'penstock_mirror_partitions{{{INSTANCE},stage="waiting"}}': "3x90",
    },
    "PenstockCertificateEnds": {
        f'penstock_certificate_expires_seconds{{{INSTANCE},file="f"}}': "100000x90",
    },
}


def broker_names() -> set[str]:
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


def mirror_names() -> set[str]:
    """All that a scrape of a mirror may have."""
    config = msgspec.yaml.decode(CONFIG.read_bytes(), type=MirrorConfig)
    standing = MirrorStatus(config, SigningKey.new().public)
    standing.comparing = Comparison(config, lambda: None, dict)
    said = MirrorMetrics(standing, lambda: {"a file": 1.0}).exposition()
    return set(re.findall(r"^# TYPE (\w+)", said.decode(), re.MULTILINE))


class Monitored(msgspec.Struct, frozen=True):
    """A program's dashboard and rules, and the figures for them, once a minute."""

    dashboard: str
    rules: Path
    names: Callable[[], set[str]]
    well: Mapping[str, str]
    fired: Mapping[str, Mapping[str, str | None]]


def series(values: dict[str, int]) -> dict[str, str]:
    return {f"penstock_broker_{name}": f"{value}x90" for name, value in values.items()}


MONITORED: Final = {
    "broker": Monitored(
        *(DASHBOARD, RULES, broker_names, series(BROKER_WELL)),
        {
            alert: series(changes) if changes else dict.fromkeys(series(BROKER_WELL))
            for alert, changes in BROKER_FIRED.items()
        },
    ),
    "mirror": Monitored(
        (DEPLOY / "grafana/penstock-mirror.json").read_text(),
        MIRROR_RULES,
        mirror_names,
        MIRROR_WELL,
        MIRROR_FIRED,
    ),
}


@pytest.mark.parametrize("monitored", MONITORED.values(), ids=MONITORED)
def test_dashboard_and_rules(monitored: Monitored, tmp_path: Path) -> None:
    """Each name is a metric, and each rule fires when it should and no other time."""
    check_layout(monitored.dashboard)
    text = monitored.dashboard + monitored.rules.read_text()
    assert set(re.findall(r"penstock_(?:broker|mirror|certificate)_\w+", text)) <= monitored.names()
    (group,) = yaml.safe_load(monitored.rules.read_text())["groups"]
    assert {rule["alert"] for rule in group["rules"]} == monitored.fired.keys()
    rules = len(monitored.fired)
    assert f"{rules} rules found" in promtool("check", "rules", str(monitored.rules))
    stories = [(monitored.well, set[str]())]
    for alert, changes in monitored.fired.items():
        all_figures = {**monitored.well, **changes}
        at = {name: value for name, value in all_figures.items() if value is not None}
        stories.append((at, {alert}))
    check_alerts(tmp_path, *stories, rules=monitored.rules)

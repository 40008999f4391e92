"""What Grafana and Prometheus are given of mirrors: figures that there are, rules that fire."""

import re
from pathlib import Path

import msgspec
import yaml

from mirror.comparing.comparison import Comparison
from mirror.config import MirrorConfig
from mirror.monitoring.metrics import MirrorMetrics
from mirror.monitoring.status import MirrorStatus
from tests.deploy.dashboards import check_layout
from tests.deploy.mirror_alerts import RULES, check_alerts, promtool

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
DASHBOARD = (DEPLOY / "grafana" / "penstock-mirror.json").read_text()
CONFIG = Path(__file__).resolve().parents[2] / "docs" / "samples" / "mirror-minimal.yaml"

INSTANCE = 'instance="a"'
READY = f"penstock_mirror_ready{{{INSTANCE}}}"
WELL = {
    READY: "1x90",
    f'penstock_mirror_partitions{{{INSTANCE},stage="stopped"}}': "0x90",
    f'penstock_mirror_partitions{{{INSTANCE},stage="waiting"}}': "0 3x5 0x84",  # a leader moved
    f'penstock_mirror_partitions{{{INSTANCE},stage="copying"}}': "9x90",
    f'penstock_mirror_lag_seconds{{{INSTANCE},topic="t",partition="0"}}': "0 700x3 5x86",
    f'penstock_certificate_expires_seconds{{{INSTANCE},file="f"}}': "9000000x90",
}
"""Once a minute for an hour and a half."""
FIRED: dict[str, dict[str, str | None]] = {
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
"""The figures at which each rule fires."""


def names() -> set[str]:
    """All that a scrape of a mirror may have."""
    config = msgspec.yaml.decode(CONFIG.read_bytes(), type=MirrorConfig)
    standing = MirrorStatus(config)
    standing.comparing = Comparison(config, lambda: None, dict)
    said = MirrorMetrics(standing, lambda: {"a file": 1.0}).exposition()
    return set(re.findall(r"^# TYPE (\w+)", said.decode(), re.MULTILINE))


def spoken_of(text: str) -> set[str]:
    return set(re.findall(r"penstock_(?:mirror|certificate)_\w+", text))


def test_every_name_is_a_metric() -> None:
    assert spoken_of(DASHBOARD + RULES.read_text()) <= names()


def test_the_dashboard_is_laid_out() -> None:
    check_layout(DASHBOARD)


def test_rules_are_as_prometheus_wants_them() -> None:
    assert f"{len(FIRED)} rules found" in promtool("check", "rules", str(RULES))


def test_each_rule_fires_when_it_should_and_no_other_time(tmp_path: Path) -> None:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    assert {each["alert"] for each in group["rules"]} == FIRED.keys()
    stories = [(WELL, set[str]())]
    for alert, figures in FIRED.items():
        at = {name: value for name, value in (WELL | figures).items() if value is not None}
        stories.append((at, {alert}))
    check_alerts(tmp_path, *stories)

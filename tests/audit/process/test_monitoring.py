"""What Grafana and Prometheus are given speaks of figures that there are, and of all of them."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from audit.clusters.state import AuditState, ClusterState
from audit.configuration.config import AuditConfig
from audit.process.metrics import AuditMetrics
from audit.service.service import Service
from tests.deploy.dashboards import check_layout

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
DASHBOARD = (DEPLOY / "grafana" / "penstock-audit.json").read_text()
RULES = (DEPLOY / "prometheus" / "penstock-audit.rules.yaml").read_text()


def names() -> set[str]:
    """All that a scrape of an audit may have."""
    service = Service(AuditConfig(data_dir="unused"), AuditState({"local": ClusterState()}))
    found = set()
    for family in AuditMetrics(service).families():
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}
        found |= {family.name + suffix for suffix in suffixes.get(family.type, [""])}
    return found


def spoken_of(text: str) -> set[str]:
    return set(re.findall(r"penstock_(?:audit|certificate)_\w+", text))


def test_every_name_is_a_metric() -> None:
    assert spoken_of(DASHBOARD) | spoken_of(RULES) <= names()


def test_every_metric_is_shown() -> None:
    unused = names() - spoken_of(DASHBOARD + RULES)
    assert {each for each in unused if not re.search("_(sum|count|bucket)$", each)} == set()


def test_the_dashboard_is_laid_out() -> None:
    check_layout(DASHBOARD)


def test_rules_are_whole() -> None:
    (group,) = yaml.safe_load(RULES)["groups"]
    for rule in group["rules"]:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}


def test_the_alert_on_guessed_passwords_names_reasons_of_the_audit() -> None:
    (group,) = yaml.safe_load(RULES)["groups"]
    (rule,) = (each for each in group["rules"] if each["alert"] == "PenstockAuditGuessed")
    (reasons,) = re.findall('why=~"([^"]+)"', rule["expr"])
    code = "".join(path.read_text() for path in (DEPLOY.parent / "audit" / "http").rglob("*.py"))
    assert [reason for reason in reasons.split("|") if f'"{reason}"' not in code] == []


ALERT = "PenstockGroupFallsBehind"
BEHIND = {
    "falls behind": ("billing", ["0+60x60"], True),
    "stands still": ("billing", ["0x10 7200x50"], True),
    "catches up": ("billing", ["7200-60x60"], False),
    "is never far behind": ("billing", ["600x60"], False),
    "was far behind, and is not any more": ("billing", ["7200x20 0x40"], False),
    "stands still in one partition": ("billing", ["7200-60x60", "8000x60"], True),
    "is a loader, which waits for its next run": ("penstock-loader", ["0+60x60"], False),
}
"""Lag in seconds of each partition, once a minute for an hour."""


@pytest.mark.parametrize("story", BEHIND)
def test_a_group_that_falls_behind_is_told(story: str, tmp_path: Path) -> None:
    group, lags, told = BEHIND[story]
    labels = {"cluster": "dc1", "group": group, "topic": "clicks"}
    rows = [({**labels, "partition": str(number)}, lag) for number, lag in enumerate(lags)]
    case = _case(rows, labels if told else None)
    assert "SUCCESS" in tried(tmp_path, case)


def _case(rows: list[tuple[dict[str, str], str]], told: dict[str, str] | None) -> dict[str, Any]:
    firing = f'ALERTS{{alertname="{ALERT}",alertstate="firing"}}'
    of = ", ".join(f'{name}="{value}"' for name, value in sorted((told or {}).items()))
    expected = [{"labels": f"{{{of}}}", "value": 1}] if told else []
    return {
        "interval": "1m",
        "input_series": [
            {"series": f"penstock_audit_group_lag_seconds{_labels(labels)}", "values": values}
            for labels, values in rows
        ],
        "promql_expr_test": [
            {
                "expr": f"count by (cluster, group, topic) ({firing})",
                "eval_time": "55m",
                "exp_samples": expected,
            }
        ],
    }


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def tried(directory: Path, case: dict[str, Any]) -> str:
    """What promtool says of the rules and that story."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not here: apt install prometheus")
    path = directory / "stories.yaml"
    rules = str(DEPLOY / "prometheus" / "penstock-audit.rules.yaml")
    document = {"rule_files": [rules], "evaluation_interval": "1m", "tests": [case]}
    path.write_text(yaml.safe_dump(document))
    ended = subprocess.run(
        [program, "test", "rules", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout

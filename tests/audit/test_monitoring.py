"""What Grafana and Prometheus are given speaks of figures that there are, and of all of them."""

import json
import re
from pathlib import Path

import yaml

from audit.config import AuditConfig
from audit.metrics import AuditMetrics
from audit.service import Service
from audit.standing import ClusterStanding, Standing

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
DASHBOARD = (DEPLOY / "grafana" / "penstock-audit.json").read_text()
RULES = (DEPLOY / "prometheus" / "penstock-audit.rules.yaml").read_text()


def names() -> set[str]:
    """All that a scrape of an audit may have."""
    service = Service(AuditConfig(data_dir="unused"), Standing({"local": ClusterStanding()}))
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
    panels = json.loads(DASHBOARD)["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for each in panels:
        at = each["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, each["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_rules_are_whole() -> None:
    (group,) = yaml.safe_load(RULES)["groups"]
    for rule in group["rules"]:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}

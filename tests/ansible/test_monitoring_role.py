"""The role monitoring, on a host that has nothing yet: what it writes is checked by promtool."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.hosts.ansible_tools import REPOSITORY, Played, play
from tests.ansible.conftest import HERE

pytestmark = pytest.mark.long

GROUPS: dict[str, Any] = {
    "penstock_prometheus": {"hosts": {"watch": HERE}},
    "penstock_grafana": {"hosts": {"watch": {}}},
    "penstock_broker": {
        "hosts": {
            "b1": {"penstock_address": "10.0.0.1"},
            "b2": {
                "penstock_address": "fd00::2",
                "penstock_broker_instances": [
                    {"id": 2, "port": 9092, "http_port": 9095},
                    {"id": 3, "port": 9093, "http_port": 9096},
                ],
            },
            "other": {"penstock_cluster": "offline", "penstock_broker_http_port": 9195},
        }
    },
    "penstock_audit": {"hosts": {"b1": {}}},
    "penstock_agent": {"hosts": {"web-[1:3]": {}}},
}
DOCUMENT = [
    {
        "name": "Watch",
        "hosts": "penstock_prometheus",
        "gather_facts": False,
        "roles": [{"role": "penstock.pipeline.monitoring"}],
    }
]


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, Any]:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not here: apt install prometheus")
    return {
        "penstock_cluster": "live",
        "penstock_monitoring_promtool": promtool,
        "penstock_monitoring_prometheus_dir": str(tmp_path / "prometheus"),
        "penstock_monitoring_grafana_dir": str(tmp_path / "grafana"),
        "penstock_monitoring_grafana_source": "http://127.0.0.1:9090",
        "penstock_monitoring_reload": False,
        "penstock_monitoring_scrape_configs": [{"job_name": "prometheus"}],
        "penstock_monitoring_scrape": {"agent": {"scrape_interval": "60s"}},
    }


def played(folder: Path, variables: dict[str, Any], *options: str) -> Played:
    # An extra variable would be the same on all hosts.
    mine = dict(variables)
    inventory = {"all": {"vars": {"penstock_cluster": mine.pop("penstock_cluster")}}, **GROUPS}
    return play(folder, DOCUMENT, inventory, *options, variables=mine)


@pytest.mark.not_quick("plays with Ansible")
def test_on_a_host_that_has_nothing(
    ansible: None, tmp_path: Path, variables: dict[str, Any]
) -> None:
    shown = played(tmp_path, variables, "--check", "--diff")
    assert shown.code == 0, shown.said
    assert not (tmp_path / "prometheus").exists()
    assert len(shown.changed) > 5

    first = played(tmp_path, variables)
    assert first.code == 0, first.said
    config = yaml.safe_load((tmp_path / "prometheus" / "prometheus.yml").read_text())
    jobs = {
        each["job_name"]: each["static_configs"][0]["targets"]
        for each in config["scrape_configs"]
        if "static_configs" in each
    }
    assert jobs == {
        "live": ["10.0.0.1:9095", "[fd00::2]:9095", "[fd00::2]:9096"],
        "live-agents": ["web-1:9464", "web-2:9464", "web-3:9464"],
        "live-audit": ["10.0.0.1:8090"],
        "offline": ["other:9195"],
    }
    assert {each.get("scrape_interval") for each in config["scrape_configs"]} == {None, "60s"}
    rules = REPOSITORY / "deploy" / "prometheus"
    for each in rules.glob("*.rules.yaml"):
        assert (tmp_path / "prometheus" / "penstock" / each.name).read_bytes() == each.read_bytes()
    dashboards = {each.name for each in (REPOSITORY / "deploy" / "grafana").glob("*.json")}
    assert {each.name for each in (tmp_path / "grafana" / "penstock").iterdir()} == dashboards

    # Without the rules, which are copied like the dashboards.
    templates = ("--start-at-task", "Write the scrape configuration")
    again = played(tmp_path, variables, *templates)
    assert (again.code, again.changed) == (0, [])

    wrong = {**variables, "penstock_monitoring_config": {"global": {"scrape_interval": "soon"}}}
    before = (tmp_path / "prometheus" / "prometheus.yml").read_text()
    refused = played(tmp_path, wrong, *templates)
    assert refused.code == 2
    assert "validate" in json.dumps(refused.tasks[-1])
    assert (tmp_path / "prometheus" / "prometheus.yml").read_text() == before

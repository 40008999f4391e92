"""Part of a cluster (`--limit`) is changed under the lock of the whole one, and two of them never
together."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.hosts.ansible_tools import COLLECTION, Played, play
from tests.ansible.conftest import AWAY, HERE

pytestmark = [pytest.mark.long, pytest.mark.not_quick("starts Ansible")]

ROLLING = COLLECTION / "playbooks" / "rolling.yml"
LOCAL = "localhost"


def rolled(folder: Path, *options: str, keeper: dict[str, Any] | None = None) -> Played:
    """A roll that ends at its first broker, as nobody serves here."""
    names = {"keeper": keeper or {}, "one": {}, "two": {}}
    hosts = {
        name: {**(own or HERE), "penstock_broker_id": number}
        for number, (name, own) in enumerate(names.items())
    }
    inventory = {"penstock_broker": {"hosts": hosts}}
    return play(folder, ROLLING, inventory, *options, variables=paths(folder))


def paths(folder: Path) -> dict[str, Any]:
    """Nothing of this machine's. The release is on each host."""
    marker = folder / "nothing/releases/1.0.0/release.json"
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text('{"extras": ["broker"]}')
    return {
        "penstock_release": "1.0.0",
        "penstock_root": f"{folder}/nothing",
        "penstock_gate_lock": f"{folder}/roll/roll.json",
        "penstock_gate_baseline": f"{folder}/roll/baseline.json",
        "ansible_become": False,
    }


def holder(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "roll" / "roll.json").read_text())
    return found


def test_a_host_of_the_run_takes_the_lock_on_one_that_is_not_in_it(
    ansible: None, tmp_path: Path
) -> None:
    played = rolled(tmp_path, "--limit", "two")
    assert played.code != 0
    assert "was not changed, because not all brokers are up" in played.said
    assert (holder(tmp_path)["what"], holder(tmp_path)["state"]) == ("rolling", "stopped")


def test_nothing_is_begun_while_the_host_is_away_that_keeps_it(
    ansible: None, tmp_path: Path
) -> None:
    played = rolled(tmp_path, "--limit", "!keeper", keeper=AWAY)
    assert played.code != 0
    assert "keeper, which keeps the cluster's lock, does not answer" in played.said
    assert "was not changed" not in played.said
    assert not (tmp_path / "roll").exists()


def test_a_host_that_goes_may_be_all_that_is_in_the_run(ansible: None, tmp_path: Path) -> None:
    inventory: dict[str, Any] = {
        "penstock_broker": {"hosts": {"keeper": AWAY}},
        "penstock_agent": {"hosts": {"web": HERE}},
    }
    path = COLLECTION / "playbooks" / "retire_host.yml"
    options = ["--limit", "web,localhost", "-e", "penstock_retired_host=web"]
    played = play(tmp_path, path, inventory, *options, variables=paths(tmp_path))
    assert "keeper, which keeps the cluster's lock, does not answer" in played.said


def test_another_host_keeps_it_where_that_is_said(ansible: None, tmp_path: Path) -> None:
    elsewhere = ["-e", "penstock_gate_lock_host=two"]
    played = rolled(tmp_path, "--limit", "!keeper", *elsewhere, keeper=AWAY)
    assert "one was not changed" in played.said
    assert holder(tmp_path)["state"] == "stopped"


def test_a_run_that_was_not_begun_touches_no_host(ansible: None, tmp_path: Path) -> None:
    lock = {"penstock_gate_lock": f"{tmp_path}/roll/roll.json", "penstock_gate_at_host": "one"}
    at = {"name": "penstock.pipeline.gate", "tasks_from": "record_host.yml"}
    document = [
        {
            "name": "At a host",
            "hosts": "penstock_broker",
            "gather_facts": False,
            "tasks": [{"name": "At it", "ansible.builtin.include_role": at}],
        }
    ]
    played = play(tmp_path, document, {"penstock_broker": {"hosts": {"one": HERE}}}, variables=lock)
    assert played.code != 0
    assert "this run has not taken the cluster" in played.failure


def test_a_playbook_that_takes_the_lock_begins_with_who_speaks() -> None:
    """And so checks the inventory. What comes before it is about no host."""
    found = set()
    for path in (COLLECTION / "playbooks").glob("*.yml"):
        plays = [each for each in yaml.safe_load(path.read_text()) if each.get("hosts") != LOCAL]
        if "penstock_speaker" in str(plays[1:]) and path.stem != "speaker":
            assert plays[0].get("ansible.builtin.import_playbook") == "speaker.yml", path.name
            found.add(path.stem)
    assert found >= {"rolling", "site", "declare", "backup", "rollback", "retire_host"}

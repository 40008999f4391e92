"""`penstock check-config audit`: what is asked, and what is said of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from harness.server_process import free_ports
from penstock.services.audit_check import problems_of_ledger
from tests.penstock.running import Ended, penstock


def check(config: Path, *options: str) -> Ended:
    return penstock("check-config", "audit", str(config), *options)


def written(directory: Path, **settings: Any) -> Path:
    config = directory / "audit.yaml"
    config.write_text(json.dumps({"data_dir": "/d", **settings}))  # JSON is YAML
    return config


def test_what_is_there(
    tmp_path: Path, running_broker: BrokerProcess, running_registry: RegistryProcess
) -> None:
    inventory = tmp_path / "hosts"
    inventory.write_text("web-1\nweb-2\n")
    cluster = {"brokers": [running_broker.bootstrap], "registry": running_registry.url}
    config = written(
        tmp_path,
        clusters={"dc1": cluster},
        inventory=str(inventory),
        alerts={"webhook": "https://chat.example.org/hooks/secret"},
    )
    ended = check(config, "--online", "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    said = json.loads(ended.stdout)
    assert said["configuration"]["alerts"]["webhook"] == "…"
    (found,) = said["clusters"]
    assert (found["name"], found["brokers"], said["hosts"]) == ("dc1", 1, 2)
    shown = check(config)
    assert "secret" not in shown.stdout
    assert "inventory: 2 hosts\n" in shown.stdout
    no_ledger = "note: cluster dc1: there is no topic _audit: nobody has written a ledger yet\n"
    assert (no_ledger in shown.stdout) == (found["partitions"] == 0)


def test_who_does_not_answer_is_a_problem_only_if_he_must(tmp_path: Path) -> None:
    broker, registry = free_ports(2)
    config = written(
        tmp_path, brokers=[f"127.0.0.1:{broker}"], registry=f"http://127.0.0.1:{registry}"
    )
    asked = check(config)
    assert asked.returncode == 0
    assert f"note: cluster local: the ledger is not checked: no broker at 127.0.0.1:{broker}" in (
        asked.stdout
    )
    assert "note: cluster local: the ledger's schema is not checked" in asked.stdout
    must = check(config, "--online")
    assert must.returncode == 1
    assert "problem: cluster local: the ledger is not checked" in must.stdout
    assert must.stderr.endswith("(and 1 more)\n")
    nobody = check(config, "--offline")
    assert nobody.returncode == 0
    assert "not checked" not in nobody.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "No such file or directory"), ("- {host: web-1, tpoics: []}\n", "unknown field")],
)
def test_an_inventory_that_cannot_be_used(tmp_path: Path, text: str | None, said: str) -> None:
    inventory = tmp_path / "hosts.yaml"
    if text is not None:
        inventory.write_text(text)
    ended = check(written(tmp_path, inventory=str(inventory)), "--offline")
    assert ended.returncode == 1
    assert said in ended.stderr
    assert f"problem: `inventory: {inventory}`: " in ended.stdout


DAY_MS = 86_400_000


def test_a_ledger_that_is_kept_as_long_as_its_windows() -> None:
    for kept in (str(7 * DAY_MS), "-1", None):
        configs = {"cleanup.policy": "delete", "retention.ms": kept}
        assert list(problems_of_ledger(configs, 7 * 86_400.0)) == []


def test_a_ledger_that_could_not_be_read_again() -> None:
    configs = {"cleanup.policy": "compact,delete", "retention.ms": str(3 * DAY_MS)}
    compacted, short = problems_of_ledger(configs, 7 * 86_400.0)
    assert "has compact" in compacted
    assert "retention.ms of _audit is 259,200,000, and the audit's `retention` is 604800 s" in short


def test_locks_that_do_not_work_are_problems(tmp_path: Path) -> None:
    users, tokens = tmp_path / "users", tmp_path / "tokens"
    users.write_text("alice:secret\n")
    missing = str(tmp_path / "missing")
    config = written(
        tmp_path,
        host="10.0.0.21",
        tls={"certificate": missing},
        users_file=str(users),
        tokens_file=str(tokens),
        insecure=True,
    )
    ended = check(config, "--offline")
    assert ended.returncode == 1
    assert f"problem: `tls`: `certificate` {missing}: no such file" in ended.stdout
    assert f"problem: `users_file`: {users}, line 1: not `name:scrypt:…`" in ended.stdout
    assert f"problem: `tokens_file`: {tokens} cannot be read" in ended.stdout
    assert "note: insecure: " in ended.stdout
    assert "alice:secret" not in ended.stdout

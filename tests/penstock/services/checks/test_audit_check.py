"""`penstock check-config audit`: what is asked, and what is said of it."""

from pathlib import Path

import pytest

from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from penstock.services.checks.audit_check import problems_of_ledger
from tests.penstock.services.checking import Checking

DAY_MS = 86_400_000


@pytest.fixture
def audit(tmp_path: Path) -> Checking:
    return Checking("audit", tmp_path, data_dir="/d")


def test_what_is_there(
    audit: Checking, running_broker: BrokerProcess, running_registry: RegistryProcess
) -> None:
    inventory = audit.folder / "hosts"
    inventory.write_text("web-1\nweb-2\n")
    cluster = {"brokers": [running_broker.bootstrap], "registry": running_registry.url}
    audit.settings |= {
        "clusters": {"dc1": cluster},
        "inventory": str(inventory),
        "alerts": {"webhook": "https://chat.example.org/hooks/secret"},
    }
    report = audit.report()
    assert report["configuration"]["alerts"]["webhook"] == "…"
    (found,) = report["clusters"]
    assert (found["name"], found["brokers"], report["hosts"]) == ("dc1", 1, 2)
    shown = audit.said()
    assert "secret" not in shown
    assert "inventory: 2 hosts\n" in shown
    no_ledger = "note: cluster dc1: topic _audit does not exist: no program has written a ledger"
    assert (no_ledger in shown) == (found["partitions"] == 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "No such file or directory"), ("- {host: web-1, tpoics: []}\n", "unknown field")],
)
def test_an_inventory_that_cannot_be_used(audit: Checking, text: str | None, said: str) -> None:
    inventory = audit.folder / "hosts.yaml"
    if text is not None:
        inventory.write_text(text)
    ended = audit.run("--offline", inventory=str(inventory))
    assert (ended.returncode, said in ended.stderr) == (1, True)
    assert f".yaml: `inventory: {inventory}`: " in ended.stderr


def test_a_ledger_is_kept_as_long_as_its_windows() -> None:
    for kept in (str(7 * DAY_MS), "-1", None):
        configs = {"cleanup.policy": "delete", "retention.ms": kept}
        assert list(problems_of_ledger(configs, 7 * 86_400.0)) == []
    configs = {"cleanup.policy": "compact,delete", "retention.ms": str(3 * DAY_MS)}
    compacted, short = problems_of_ledger(configs, 7 * 86_400.0)
    assert "includes compact" in compacted
    assert "retention.ms of _audit is 259,200,000, but the audit's `retention` is 604800 s" in short


def test_locks_that_do_not_work_are_problems(audit: Checking) -> None:
    users, tokens = audit.folder / "users", audit.folder / "tokens"
    users.write_text("alice:secret\n")
    missing = str(audit.folder / "missing")
    audit.settings |= {"host": "10.0.0.21", "insecure": True, "tls": {"certificate": missing}}
    files = {"users_file": str(users), "tokens_file": str(tokens)}
    shown = audit.said("--offline", exit_code=1, **files)
    assert f".yaml: `tls`: `certificate` {missing}: no such file" in shown
    assert f".yaml: `users_file`: {users}, line 1: expected `name:scrypt:…`" in shown
    assert f".yaml: `tokens_file`: {tokens} cannot be read" in shown
    assert "note: insecure: " in shown
    assert "alice:secret" not in shown

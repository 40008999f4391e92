"""`penstock check-config agent`: what an agent would do, asked of running servers."""

import gzip
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from harness.server_process import free_ports
from schemas.event_schemas import LOG_LINE, scaffold
from tests.penstock.at_registry import AtRegistry
from tests.penstock.running import Ended, penstock


class Checking:
    """A configuration file with addresses of servers, and what is said of it."""

    def __init__(self, folder: Path, brokers: str, registry: str) -> None:
        self.folder = folder
        self.topic = f"topic-{uuid.uuid4().hex[:12]}"
        self.path = folder / "agent.yaml"
        self.settings: dict[str, Any] = {"brokers": [brokers], "registry": registry}

    def run(self, *inputs: dict[str, Any], options: tuple[str, ...] = (), **more: Any) -> Ended:
        wanted = {**self.settings, "inputs": [{"topic": self.topic, **each} for each in inputs]}
        self.path.write_text(yaml.safe_dump({**wanted, **more}))
        return penstock("check-config", "agent", str(self.path), *options)

    def report(self, *inputs: dict[str, Any], exit_code: int = 0, **more: Any) -> Any:
        ended = self.run(*inputs, options=("--json", "--online"), **more)
        assert ended.returncode == exit_code, ended
        return json.loads(ended.stdout)

    def paths(self, *names: str) -> list[str]:
        return [str(self.folder / name) for name in names]


@pytest.fixture
def checking(
    tmp_path: Path, running_broker: BrokerProcess, running_registry: RegistryProcess
) -> Checking:
    return Checking(tmp_path, running_broker.bootstrap, running_registry.url)


@pytest.fixture
def alone(tmp_path: Path) -> Checking:
    """Nobody answers at its addresses."""
    broker, registry = free_ports(2)
    return Checking(tmp_path, f"127.0.0.1:{broker}", f"http://127.0.0.1:{registry}")


def test_what_plain_lines_come_to(checking: Checking) -> None:
    for name in ("a.log", "b.log", "c.txt"):
        (checking.folder / name).write_text("line\n")
    (checking.folder / "a.log.1.gz").write_bytes(gzip.compress(b"line\n"))
    (checking.folder / "again.log").symlink_to("a.log")
    report = checking.report({"paths": checking.paths("*.log", "*.gz")})
    (check,) = report["inputs"]
    assert (check["files"], check["bytes"], check["problems"]) == (2, 10, [])
    assert (check["schema"], check["version"]) == (LOG_LINE, 1)
    assert check["remarks"] == ["1 compressed files are not read"]
    assert [each["name"] for each in report["topics"]] == [
        checking.topic,
        f"{checking.topic}.dead",
        "_audit",
    ]
    assert report["configuration"]["inputs"][0]["topic"] == checking.topic


def test_what_would_be_registered_is(checking: Checking, schemas: AtRegistry) -> None:
    (checking.folder / "order.avsc").write_text(scaffold("shop.Order", {"total": "long"}))
    each = {"paths": checking.paths("x"), "format": "json", "schema": "order.avsc"}
    refused = checking.run(each)
    assert refused.returncode == 1
    assert "has no schema" in refused.stderr
    assert "`auto_register` is off" in refused.stdout
    (check,) = checking.report(each, auto_register=True)["inputs"]
    assert (check["schema"], check["version"]) == ("shop.Order", 1)
    assert schemas.json("show", f"{checking.topic}-value")["version"] == 1


def test_an_input_that_does_not_fit_its_topics_schema(checking: Checking) -> None:
    (checking.folder / "order.avsc").write_text(scaffold("shop.Order", {"total": "long"}))
    each = {
        "paths": checking.paths("x"),
        "format": "json",
        "schema": "order.avsc",
        "add_fields": {"colour": "red"},
    }
    report = checking.report(each, auto_register=True, exit_code=1)
    ((problem,),) = [check["problems"] for check in report["inputs"]]
    assert "colour" in problem


def test_files_of_inputs_dir_are_checked(checking: Checking) -> None:
    folder = checking.folder / "agent.d"
    folder.mkdir()
    (folder / "shop.yaml").write_text(f"inputs: [{{paths: [/x], topic: {checking.topic}-2}}]\n")
    (folder / "wrong.yaml").write_text("inputs: [{paths: [/x], topci: a}]\n")
    ended = checking.run({"paths": checking.paths("x")}, inputs_dir="agent.d")
    assert ended.returncode == 1
    assert f"{checking.topic}-2" in ended.stdout
    assert ended.stderr == (
        f"penstock: {checking.path}: {folder}/wrong.yaml: line 1: inputs[0].topci: unknown key; "
        "did you mean topic?\n"
    )


def test_nobody_answers(alone: Checking) -> None:
    each = {"paths": alone.paths("x")}
    ended = alone.run(each)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "note: schemas are not checked: no registry at" in ended.stdout
    assert "note: topics are not checked: no broker at" in ended.stdout
    assert "not checked" not in alone.run(each, options=("--offline",)).stdout
    ended = alone.run(each, options=("--online",))
    assert ended.returncode == 1
    assert "schemas are not checked" in ended.stderr


def test_a_folder_that_may_not_be_read_is_named(alone: Checking) -> None:
    (alone.folder / "file").write_text("")
    ended = alone.run({"paths": alone.paths("file/*")}, options=("--offline",))
    assert "note: input" in ended.stdout


def test_what_can_be_seen_without_a_schema_is(alone: Checking) -> None:
    ended = alone.run({"paths": alone.paths("x"), "encoding": "rot13"}, options=("--offline",))
    assert ended.returncode == 1
    assert "`encoding: rot13`" in ended.stderr


def test_options_that_mean_nothing_are_refused(alone: Checking) -> None:
    both = alone.run({"paths": alone.paths("x")}, options=("--offline", "--online"))
    assert (both.returncode, len(both.stderr.splitlines())) == (2, 1)
    other = penstock("check-config", "broker", "broker.yaml", "--offline")
    assert (other.returncode, len(other.stderr.splitlines())) == (2, 1)


def test_the_key_of_a_digest_is_not_shown(alone: Checking) -> None:
    redaction = {"pattern": "x", "hash": True, "key": "hunter2"}
    each = {"paths": alone.paths("x"), "redact": [redaction]}
    shown = alone.run(each, options=("--offline",)).stdout
    shown += alone.run(each, options=("--offline", "--json")).stdout
    assert "hunter2" not in shown


def test_a_file_for_inputs_dir_is_checked_before_it_is_there(alone: Checking) -> None:
    file = alone.folder / "shop.yaml"
    file.write_text("inputs: [{paths: [/var/log/shop/*.log], topic: shop, name: shop}]\n")
    ended = penstock("check-config", "inputs", str(file))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "no file matches now" in ended.stdout

    file.write_text("inputs: [{paths: [/x], topci: shop}]\n")
    ended = penstock("check-config", "inputs", str(file))
    assert ended.returncode == 2
    assert ended.stderr.endswith("inputs[0].topci: unknown key; did you mean topic?\n")

    file.write_text("inputs: [{paths: [/x], topic: shop, encoding: rot13}]\n")
    ended = penstock("check-config", "inputs", str(file))
    assert ended.returncode == 1
    assert "`encoding: rot13`" in ended.stderr


def test_a_file_for_inputs_dir_is_checked_beside_what_is_there(alone: Checking) -> None:
    """One of its name gives way; others, and what else is wrong with the agent, do not stop it."""
    there = alone.folder / "agent.d"
    there.mkdir()
    text = "inputs: [{{paths: [/x], topic: shop, name: {}}}]\n"
    (there / "shop.yaml").write_text(text.format("shop"))
    (there / "till.yaml").write_text(text.format("till"))
    (there / "wrong.yaml").write_text("inputs: [{}]\n")
    tls = {"tls": {"ca": str(alone.folder / "absent.pem")}}
    alone.run({"paths": ["/y"], "name": "main"}, inputs_dir="agent.d", security=tls)
    file = alone.folder / "shop.yaml"

    def check(name: str) -> Ended:
        file.write_text(text.format(name))
        return penstock("check-config", "inputs", str(file), "--beside", str(alone.path))

    for taken in ("till", "main"):
        ended = check(taken)
        assert (ended.returncode, f"two inputs are called {taken}" in ended.stderr) == (2, True)
    ended = check("shop")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "absent.pem" in ended.stdout  # for information


def test_what_inputs_do_not_go_with_is_said(alone: Checking) -> None:
    file = alone.folder / "shop.yaml"
    file.write_text("inputs: [{paths: [/x], topic: shop}]\n")
    online = penstock("check-config", "inputs", str(file), "--online")
    assert (online.returncode, "--beside" in online.stderr) == (2, True)
    other = penstock("check-config", "audit", str(file), "--beside", str(file))
    assert (other.returncode, "--beside is for inputs" in other.stderr) == (2, True)

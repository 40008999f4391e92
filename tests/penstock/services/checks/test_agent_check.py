"""`penstock check-config agent` and `inputs`: what an agent would do, asked of running servers."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import free_ports
from schemas.event_schemas import LOG_LINE, scaffold
from tests.penstock.at_registry import AtRegistry
from tests.penstock.running import Ended, penstock
from tests.penstock.services.checking import Checking

OFFLINE = "--offline"
ORDER = scaffold("shop.Order", {"total": "long"})


@pytest.fixture
def checking(
    tmp_path: Path, running_broker: BrokerProcess, running_registry: RegistryProcess
) -> Checking:
    brokers = [running_broker.bootstrap]
    return Checking("agent", tmp_path, brokers=brokers, registry=running_registry.url)


@pytest.fixture
def alone(tmp_path: Path) -> Checking:
    """Nobody answers at its addresses."""
    broker, registry = free_ports(2)
    at = {"brokers": [f"127.0.0.1:{broker}"], "registry": f"http://127.0.0.1:{registry}"}
    return Checking("agent", tmp_path, **at)


def inputs(topic: str, *paths: object, **more: Any) -> list[dict[str, Any]]:
    return [{"topic": topic, "paths": [str(each) for each in paths], **more}]


def test_what_plain_lines_come_to(checking: Checking, new_topic: str) -> None:
    folder = checking.folder
    for name in ("a.log", "b.log", "c.txt"):
        (folder / name).write_text("line\n")
    (folder / "a.log.1.gz").write_bytes(gzip.compress(b"line\n"))
    (folder / "again.log").symlink_to("a.log")
    (folder / "data").mkdir()
    (folder / "data" / "journal.log").write_text("of the agent's own\n")
    of = inputs(new_topic, folder / "*.log", folder / "*.gz", folder / "data" / "*.log")
    report = checking.report(inputs=of, data_dir=str(folder / "data"))
    (check,) = report["inputs"]
    assert (check["files"], check["bytes"], check["problems"]) == (3, 29, [])
    assert (check["schema"], check["version"]) == (LOG_LINE, 1)
    assert check["remarks"] == [
        f"cannot read {folder}/data/journal.log: the file belongs to the agent itself",
        "1 compressed files will not be read",
    ]
    of = inputs(new_topic, folder / "*.gz", archives="read")
    (check,) = checking.report(inputs=of, data_dir=str(folder / "data"))["inputs"]
    size = (folder / "a.log.1.gz").stat().st_size
    text = f"1 archives of {size} bytes will be read, unless their lines were read before"
    assert check["remarks"] == [text]
    topics = [each["name"] for each in report["topics"]]
    assert topics == [new_topic, f"{new_topic}.dead", "_audit"]
    assert report["configuration"]["inputs"][0]["topic"] == new_topic


def test_what_would_be_registered_is(
    checking: Checking, schemas: AtRegistry, new_topic: str
) -> None:
    (checking.folder / "order.avsc").write_text(ORDER)
    orders = inputs(new_topic, "/x", format="json", schema="order.avsc")
    refused = checking.run(inputs=orders)
    assert (refused.returncode, "has no schema" in refused.stderr) == (1, True)
    assert "`auto_register` is off" in refused.stdout
    (check,) = checking.report(inputs=orders, auto_register=True)["inputs"]
    assert (check["schema"], check["version"]) == ("shop.Order", 1)
    assert schemas.json("show", f"{new_topic}-value")["version"] == 1


def test_an_input_that_does_not_fit_its_topics_schema(checking: Checking, new_topic: str) -> None:
    (checking.folder / "order.avsc").write_text(ORDER)
    form = {"format": "json", "schema": "order.avsc", "add_fields": {"colour": "red"}}
    orders = inputs(new_topic, "/x", **form)
    report = checking.report(inputs=orders, auto_register=True, exit_code=1)
    ((problem,),) = [check["problems"] for check in report["inputs"]]
    assert "colour" in problem


def test_files_of_inputs_dir_are_checked(checking: Checking, new_topic: str) -> None:
    folder = checking.folder / "agent.d"
    folder.mkdir()
    (folder / "shop.yaml").write_text(f"inputs: [{{paths: [/x], topic: {new_topic}-2}}]\n")
    (folder / "wrong.yaml").write_text("inputs: [{paths: [/x], topci: a}]\n")
    ended = checking.run(inputs=inputs(new_topic, "/x"), inputs_dir="agent.d")
    assert (ended.returncode, f"{new_topic}-2" in ended.stdout) == (1, True)
    assert ended.stderr == (
        f"penstock: {checking.path}: {folder}/wrong.yaml: line 1, column 24: inputs[0].topci: "
        "unknown key; did you mean topic?\n"
    )


def test_what_can_be_seen_without_a_schema_is(alone: Checking) -> None:
    (alone.folder / "file").write_text("")
    unread = alone.run(OFFLINE, inputs=inputs("t", alone.folder / "file/*"))
    assert "note: input" in unread.stdout  # a folder that may not be read
    ended = alone.run(OFFLINE, inputs=inputs("t", "/x", encoding="rot13"))
    assert (ended.returncode, "`encoding: rot13`" in ended.stderr) == (1, True)


def test_the_key_of_a_digest_is_not_shown(alone: Checking) -> None:
    redact = [{"pattern": "x", "hash": True, "key": "hunter2"}]
    for options in ([OFFLINE], [OFFLINE, "--json"]):
        assert "hunter2" not in alone.said(*options, inputs=inputs("t", "/x", redact=redact))


def check_inputs(file: Path, text: str, *options: str) -> Ended:
    file.write_text(text)
    return penstock("check-config", "inputs", str(file), *options)


def test_a_file_for_inputs_dir_is_checked_before_it_is_there(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    named = "inputs: [{paths: [/var/log/shop/*.log], topic: shop, name: shop}]\n"
    ended = check_inputs(file, named)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"{file}: valid" in ended.stdout
    assert "no file matches at present" in ended.stdout
    ended = check_inputs(file, "inputs: [{paths: [/x], topci: shop}]\n")
    assert ended.returncode == 2
    assert ended.stderr.endswith("inputs[0].topci: unknown key; did you mean topic?\n")
    ended = check_inputs(file, "inputs: [{paths: [/x], topic: shop, encoding: rot13}]\n")
    assert (ended.returncode, "`encoding: rot13`" in ended.stderr) == (1, True)


def test_a_file_for_inputs_dir_is_checked_beside_what_is_there(alone: Checking) -> None:
    """One of its name gives way; others, and what else is wrong with the agent, do not stop it."""
    there = alone.folder / "agent.d"
    there.mkdir()
    text = "inputs: [{{paths: [/x], topic: shop, name: {}}}]\n"
    (there / "shop.yaml").write_text(text.format("shop"))
    (there / "till.yaml").write_text(text.format("till"))
    (there / "wrong.yaml").write_text("inputs: [{}]\n")
    tls = {"tls": {"ca": str(alone.folder / "absent.pem")}}
    alone.run(inputs=inputs("t", "/y", name="main"), inputs_dir="agent.d", security=tls)
    file, beside = alone.folder / "shop.yaml", ("--beside", str(alone.path))
    for taken in ("till", "main"):
        ended = check_inputs(file, text.format(taken), *beside)
        assert (ended.returncode, f"duplicate input {taken}" in ended.stderr) == (2, True)
    ended = check_inputs(file, text.format("shop"), *beside, OFFLINE)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "note: `security.tls`" in ended.stdout
    ended = check_inputs(file, text.format("shop"), *beside)
    assert (ended.returncode, ": schemas were not checked" in ended.stderr) == (1, True)

"""`penstock check-config loader`: what a loader would load, asked of running servers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from harness.server_process import free_ports
from penstock.services.load.check import type_text
from tests.loader.application import Application
from tests.penstock.running import Ended, penstock


class Checking:
    """A configuration file with addresses of servers, and what is said of it."""

    def __init__(self, folder: Path, brokers: str, registry: str) -> None:
        self.folder = folder
        self.path = folder / "loader.yaml"
        self.settings: dict[str, Any] = {
            "root": f"file://{folder}/root",
            "brokers": [brokers],
            "registry": registry,
        }

    def run(self, *options: str, **settings: Any) -> Ended:
        self.path.write_text(yaml.safe_dump({**self.settings, **settings}))
        return penstock("check-config", "loader", str(self.path), *options)

    def report(self, *options: str, exit_code: int = 0, **settings: Any) -> Any:
        ended = self.run("--json", *options, **settings)
        assert ended.returncode == exit_code, ended
        return json.loads(ended.stdout)


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


@pytest.fixture
def application(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[Application]:
    made = Application(running_broker.bootstrap, running_registry.url, new_topic, partitions=3)
    yield made
    made.close()


def test_topics_become_tables_with_columns(checking: Checking, application: Application) -> None:
    pattern = application.topic[:-1] + "*"
    (table,) = checking.report(topics=[pattern])["tables"]
    (topic,) = table["topics"]
    assert (table["name"], table["schema"], table["problems"]) == (
        application.topic,
        "shop.PageView",
        [],
    )
    assert (topic["name"], topic["partitions"], topic["version"]) == (application.topic, 3, 1)
    columns = {each["name"]: each["type"] for each in table["columns"]}
    assert columns.items() >= {"url": "string", "time": "timestamp", "_offset": "long"}.items()
    shown = checking.run(topics=[pattern]).stdout
    rows = [line.split() for line in shown.splitlines()]
    assert [application.topic, "millis", "double"] in rows

    nested = checking.report(topics=[pattern], header="nested")["tables"][0]["columns"]
    (header,) = [each["type"] for each in nested if each["name"] == "header"]
    assert header.startswith("struct<time:timestamp,host:string,")


def test_topics_of_clusters_become_one_table(
    checking: Checking, application: Application, new_topic: str
) -> None:
    tables = {"both": {"topics": {new_topic: "dc1", f"{new_topic}-b": "dc2"}}}
    (table,) = checking.report(tables=tables)["tables"]
    assert [each["cluster"] for each in table["topics"]] == ["dc1", "dc2"]
    assert "_cluster" in {each["name"] for each in table["columns"]}
    assert table["remarks"] == [f"topic {new_topic}-b does not exist yet"]


def test_what_would_go_wrong_is_said(checking: Checking, new_topic: str) -> None:
    missing = checking.report(topics=[new_topic], exit_code=1)["tables"][0]
    assert "has no schema for" in missing["problems"][0]
    nothing = checking.run(topics=["no.such.*"])
    assert nothing.stderr == f"penstock: {checking.path}: no topic matches `topics`\n"
    codec = checking.run("--offline", topics=["a"], format="avro", compression="lz4")
    assert "`compression: lz4`" in codec.stderr
    scheme = checking.run("--offline", topics=["a"], root="ftp://server/logs")
    assert "roots may be on" in scheme.stderr
    (checking.folder / "file").write_text("")
    folder = checking.run("--offline", topics=["a"], root=f"file://{checking.folder}/file/x")
    assert "is no folder that can be written to" in folder.stderr


@pytest.mark.not_quick("runs the loader's check five times")
def test_nobody_answers(alone: Checking) -> None:
    ended = alone.run(topics=["a"])
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "note: schemas are not checked: no registry at" in ended.stdout
    assert "note: topics are not checked: no broker at" in ended.stdout
    audit = f"http://127.0.0.1:{free_ports(1)[0]}"
    waiting = alone.run(topics=["a"], audit=audit)
    assert f"note: hours would wait for the audit at {audit}, which cannot" in waiting.stdout
    offline = alone.run("--offline", topics=["a"], audit=audit).stdout
    assert "not checked" not in offline
    assert "hours would wait" not in offline
    remote = alone.run("--offline", topics=["a"], root="hdfs://namenode/logs")
    assert "note: the root is not checked: --online starts Spark, and does" in remote.stdout
    kerberos = {"principal": "me@X", "keytab": f"{alone.folder}/none"}
    without_key = alone.run("--offline", topics=["a"], root="hdfs://a/b", kerberos=kerberos)
    assert f"problem: the keytab {alone.folder}/none cannot be read: no such" in without_key.stdout


def test_types_are_written_as_spark_writes_them() -> None:
    field = {"name": "b", "type": "decimal(10,2)"}
    struct = {"type": "struct", "fields": [{"name": "a", "type": "long"}, field]}
    assert type_text(struct) == "struct<a:long,b:decimal(10,2)>"
    assert type_text({"type": "array", "elementType": struct}) == f"array<{type_text(struct)}>"
    of_lists = {"type": "array", "elementType": "string"}
    assert (
        type_text({"type": "map", "keyType": "string", "valueType": of_lists})
        == "map<string,array<string>>"
    )

"""`penstock check-config loader`: what a loader would load, asked of running servers."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from columns.field_names import column
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import free_ports
from loader.commit.commit_log import CommitLog
from loader.decoding.spark_types import spark_json, table_json
from loader.store.local import LocalStore
from loader.values.manifests import VERSION, Manifest, RunKind
from penstock.cli.failures import missing_extra
from penstock.services.load.check import type_text
from tests.loader.application import VIEW, Application, event_schema
from tests.penstock.running import REPOSITORY
from tests.penstock.services.checking import Checking


def loader(folder: Path, brokers: str, registry: str) -> Checking:
    where = {"brokers": [brokers], "registry": registry}
    return Checking("loader", folder, root=f"file://{folder}/root", **where)


@pytest.fixture
def checking(
    tmp_path: Path, running_broker: BrokerProcess, running_registry: RegistryProcess
) -> Checking:
    return loader(tmp_path, running_broker.bootstrap, running_registry.url)


@pytest.fixture
def application(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[Application]:
    made = Application(running_broker.bootstrap, running_registry.url, new_topic, partitions=3)
    yield made
    made.close()


def test_topics_become_tables_with_columns(checking: Checking, application: Application) -> None:
    name, pattern = application.topic, application.topic[:-1] + "*"
    (table,) = checking.report(topics=[pattern])["tables"]
    (topic,) = table["topics"]
    assert (table["name"], table["schema"], table["problems"]) == (name, "shop.PageView", [])
    assert (topic["name"], topic["partitions"], topic["version"]) == (name, 3, 1)
    columns = {each["name"]: each["type"] for each in table["columns"]}
    assert columns.items() >= {"url": "string", "time": "timestamp", "_offset": "long"}.items()
    rows = [line.split() for line in checking.said(topics=[pattern]).splitlines()]
    assert [name, "millis", "double"] in rows
    nested = checking.report(topics=[pattern], header="nested")["tables"][0]["columns"]
    (header,) = [each["type"] for each in nested if each["name"] == "header"]
    assert header.startswith("struct<time:timestamp,host:string,")

    # Topics of several clusters become one table.
    tables = {"both": {"topics": {name: "dc1", f"{name}-b": "dc2"}}}
    (table,) = checking.report(tables=tables)["tables"]
    assert [each["cluster"] for each in table["topics"]] == ["dc1", "dc2"]
    assert "_cluster" in {each["name"] for each in table["columns"]}
    assert table["remarks"] == [f"topic {name}-b does not exist yet"]


def test_a_type_that_a_table_cannot_take(checking: Checking, application: Application) -> None:
    name = application.topic
    run: Any = {"version": VERSION, "run": 1, "kind": RunKind.LOAD, "committed": 0, "topics": ()}
    former = spark_json(pa.schema([("millis", pa.string())]))
    manifest = Manifest(**run, table=name, loader="me", format="parquet", schema=former)
    CommitLog(LocalStore(checking.settings["root"]), name).commit(manifest)
    said = checking.said(topics=[name], exit_code=1)
    assert f"yaml: table {name}: column `millis` is string in its files, but double in" in said


def test_columns_have_the_names_of_the_table(checking: Checking, application: Application) -> None:
    """The field `user` has been `login` once; `url` is now."""
    name = application.topic
    run: Any = {"version": VERSION, "run": 1, "kind": RunKind.LOAD, "committed": 0, "topics": ()}
    fields = column("login", pa.string(), ("user", "login")), pa.field("link", pa.string())
    manifest = Manifest(
        **run, table=name, loader="me", format="parquet", schema=table_json(pa.schema(fields))
    )
    CommitLog(LocalStore(checking.settings["root"]), name).commit(manifest)
    renamed = [
        {**field, "aliases": ["link"]} if field["name"] == "url" else field for field in VIEW
    ]
    application.change(event_schema(renamed))
    (table,) = checking.report(topics=[name])["tables"]
    names = [shown["name"] for shown in table["columns"]]
    assert names[:4] == ["login", "link", "status", "millis"]
    assert table["remarks"] == ["field `url`, formerly `link`, has column `link`"]


def test_what_would_go_wrong_is_said(checking: Checking, new_topic: str) -> None:
    missing = checking.report(topics=[new_topic], exit_code=1)["tables"][0]
    assert "has no schema for" in missing["problems"][0]
    nothing = checking.run(topics=["no.such.*"])
    assert nothing.stderr == f"penstock: {checking.path}: no topic matches `topics`\n"
    (checking.folder / "file").write_text("")
    below_a_file = f"file://{checking.folder}/file/x"
    for settings, said in (
        ({"format": "avro", "compression": "lz4"}, "`compression: lz4`"),
        ({"root": "ftp://server/logs"}, "ftp:// is not supported"),
        ({"root": below_a_file}, "is not a writable folder"),
    ):
        assert said in checking.run("--offline", topics=["a"], **settings).stderr


@pytest.mark.not_quick("runs the loader's check four times")
def test_nobody_answers(tmp_path: Path) -> None:
    broker, registry, port = free_ports(3)
    alone = loader(tmp_path, f"127.0.0.1:{broker}", f"http://127.0.0.1:{registry}")
    alone.settings["topics"] = ["a"]
    audit = f"http://127.0.0.1:{port}"
    waiting = alone.said(exit_code=1, audit=audit)
    assert f".yaml: hours would wait for the audit at {audit}, which could not" in waiting
    offline = alone.run("--offline", audit=audit).stdout
    assert "not checked" not in offline
    assert "hours would wait" not in offline
    remote = alone.run("--offline", root="hdfs://namenode/logs").stdout
    assert "note: the root is not checked: --spark starts Spark" in remote
    kerberos = {"principal": "me@X", "keytab": f"{alone.folder}/none"}
    without_key = alone.run("--offline", root="hdfs://a/b", kerberos=kerberos).stderr
    assert f".yaml: the keytab {alone.folder}/none cannot be read: no such" in without_key


@pytest.mark.not_quick("starts a process")
@pytest.mark.parametrize(
    ("absent", "said"),
    [
        ("pyarrow", f"penstock: {missing_extra('checking a loader', 'pyarrow', 'loader')}\n"),
        ("pyspark", f".yaml: {missing_extra('Spark', 'pyspark', 'loader')}\n"),
    ],
)
def test_a_loader_cannot_be_checked_without_its_extra(
    absent: str, said: str, tmp_path: Path
) -> None:
    config = tmp_path / "loader.yaml"
    config.write_text(yaml.safe_dump({"root": f"file://{tmp_path}/root", "topics": ["clicks"]}))
    without = f"import sys; sys.modules[{absent!r}] = None; from penstock.command_line import main"
    ended = subprocess.run(
        [sys.executable, "-c", f"{without}; main()", "check-config", "loader", str(config)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert said in ended.stderr


def test_types_are_written_as_spark_writes_them() -> None:
    fields = [{"name": "a", "type": "long"}, {"name": "b", "type": "decimal(10,2)"}]
    struct = {"type": "struct", "fields": fields}
    assert type_text(struct) == "struct<a:long,b:decimal(10,2)>"
    assert type_text({"type": "array", "elementType": struct}) == f"array<{type_text(struct)}>"
    of_lists = {"type": "array", "elementType": "string"}
    of_map = {"type": "map", "keyType": "string", "valueType": of_lists}
    assert type_text(of_map) == "map<string,array<string>>"

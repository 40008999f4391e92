"""`penstock load` as a process: from a broker into files, again and again, and stopped."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import yaml

from harness.hadoop.spark_jvm import quick_java
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from tests.loader.application import BEGAN, Application
from tests.loader.loads import LONG_AGO
from tests.penstock.running import REPOSITORY, penstock, running

EVENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING|ERROR) [\w.]+ \S.*\n")
WITHOUT_SPARK = ("--set", "tasks.without_spark=100000")


@pytest.fixture
def application(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[Application]:
    made = Application(running_broker.bootstrap, running_registry.url, new_topic)
    yield made
    made.close()


@pytest.fixture
def config(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str, tmp_path: Path
) -> Path:
    path = tmp_path / "loader.yaml"
    conf = {"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": quick_java()}
    settings: dict[str, Any] = {
        "root": f"file://{tmp_path}/root",
        "topics": [new_topic],
        "brokers": [running_broker.bootstrap],
        "registry": running_registry.url,
        "spark": {"master": "local[2]", "conf": {**conf, "spark.local.dir": str(tmp_path)}},
        "tasks": {"without_spark": 0},
        "completeness": {"settle": LONG_AGO.settle, "deadline": LONG_AGO.deadline},
        "ledger": False,
    }
    path.write_text(yaml.safe_dump(settings))
    return path


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_loads_follow_each_other_until_one_is_stopped(
    application: Application, config: Path
) -> None:
    application.write(300, time=BEGAN)
    load = ("load", "--config", str(config), "--json")
    root = config.parent / "root" / application.topic

    def rows_in_files() -> int:
        files = root.rglob("part-*.parquet")
        return sum(pyarrow.parquet.read_metadata(file).num_rows for file in files)

    with running(*load, "--set", "tasks.records=100", "--every", "2s") as process:

        def next_load() -> Any:
            document = json.loads(process.stdout.readline())
            (table,) = document["tables"]
            is_done = table["run"] is not None  # also where it has only closed an hour
            assert (document["error"], document["exit_code"]) == (None, 0 if is_done else 3)
            return table

        first = next_load()
        assert (first["table"], first["rows"], first["dead"]) == (application.topic, 300, 0)
        read = {"topic": application.topic, "partition": 0, "from": 0, "to": 300}
        assert first["ranges"] == [read]
        application.write(10, time=BEGAN)
        while not (table := next_load())["rows"]:
            pass
        assert (table["rows"], table["run"] > first["run"]) == (10, True)
        assert rows_in_files() == 310

        # It may be planned when only some of it is there; then it is the next load that has many.
        application.write(4_000, time=BEGAN)
        said: list[str] = []
        while records_planned(line := process.stderr.readline().decode()) < 1_500:
            assert line, said
            said.append(line)
        committed = rows_in_files()
        assert process.end(signal.SIGTERM) == 130
        said += [line, *process.stderr.read().decode().splitlines(keepends=True)]
    assert [line for line in said if not EVENT.fullmatch(line)] == []
    assert any(f"table done table={application.topic} run=" in line for line in said)
    assert any("stopped before anything was committed" in line for line in said)
    assert rows_in_files() == committed < 2_000
    (table,) = json.loads(penstock(*load, *WITHOUT_SPARK).stdout)["tables"]
    assert table["rows"] == 4_310 - committed
    assert rows_in_files() == 4_310


def records_planned(event: str) -> int:
    found = re.search(r" planned table=\S+ records=(\d+) ", event)
    return int(found[1]) if found else 0


def test_what_keeps_spark_from_starting_is_one_line(
    application: Application, config: Path, tmp_path: Path
) -> None:
    def run(path: str, java_home: str) -> tuple[int, list[str]]:
        environment = {"PATH": path, "JAVA_HOME": java_home}
        ended = penstock("load", "--config", str(config), environment=environment)
        assert ended.stdout in {"", "nothing to do\n"}
        return ended.returncode, ended.stderr.splitlines()

    code, (*_, last) = run(str(tmp_path), "")
    assert code == 1
    assert last.startswith("penstock: Spark needs Java 17 or later, which is neither on the")
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'Error: no such thing' >&2\nexit 1\n")
    java.chmod(0o755)
    code, (*_, last) = run("/usr/bin:/bin", str(tmp_path))
    assert (code, "nothing to do" in last) == (3, True), "Spark is not asked for"
    application.write(1, time=BEGAN)
    code, lines = run("/usr/bin:/bin", str(tmp_path))
    assert code == 7
    # What PySpark has left open of the JVM that did not start is told after it.
    said = [line for line in lines if line.startswith("penstock: ")]
    assert said == ["penstock: Spark's JVM did not start: Error: no such thing"]


def test_a_load_of_little_does_not_even_import_pyspark(
    application: Application, config: Path
) -> None:
    """A third of a second, and 10 MB of a program that waits for its next load."""
    application.write(10, time=BEGAN)
    fresh = (sys.executable, "-X", "importtime", "-m", "penstock", "load")
    ended = subprocess.run(
        [*fresh, "--config", str(config), *WITHOUT_SPARK],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    modules = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines() if "|" in line}
    assert "loader.run.load" in modules
    assert {each for each in modules if each.startswith(("pyspark", "py4j"))} == set()

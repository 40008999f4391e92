"""Tables in a Hive metastore: Spark's own, with Derby, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.errors import EmbeddedError
from cluster.zookeeper_server.jars import find_java
from loader.run.hive import hive_name

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a process has seen that registered a table again and again."""
    try:
        find_java()
    except EmbeddedError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("hive")
    done = subprocess.run(
        [sys.executable, "-m", "tests.loader.run.hive_program", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_only_hours_that_have_a_folder_are_there(said: Any) -> None:
    assert said["created"]["rows"] == [["2026-11-20", "07", 3]]
    assert said["another hour"]["rows"] == [["2026-11-20", "07", 3], ["2026-11-20", "08", 6]]


def test_columns_are_those_of_the_table(said: Any) -> None:
    found = said["created"]["columns"]
    assert found["nested"] == "struct<a:bigint,b:array<int>>"
    assert found["local"] == "timestamp_ntz"
    assert list(found)[-2:] == ["dt", "hour"]
    assert said["another hour"]["columns"] == found


def test_a_new_column_is_added(said: Any) -> None:
    before, after = said["another hour"], said["another column"]
    assert after["columns"] == {**before["columns"], "order": "date"}
    assert after["rows"] == before["rows"]


def test_a_column_gets_wider_and_all_hours_stay(said: Any) -> None:
    before, after = said["another column"], said["another type"]
    assert before["columns"]["count"] == "int"
    assert after["columns"] == {**before["columns"], "count": "bigint"}
    assert after["rows"] == before["rows"]
    assert after["counts"] == before["counts"]


def test_hours_that_were_never_told_are_made_up_for(said: Any) -> None:
    """Those of the table's state, and whole days."""
    days = ["15", "16", "17", "18", "19", "20"]
    found = [f"dt=2026-11-{day}/hour={hour}" for day in days for hour in ("07", "08")]
    assert said["all hours"] == found


def test_another_table_of_that_name_is_left_alone(said: Any) -> None:
    assert "`default`.`app_logs` is a different table, at file:/" in said["elsewhere"]
    assert "is not an external table of format orc" in said["another format"]


def test_a_name_that_hive_can_have() -> None:
    assert hive_name("dc1.Page-views_2") == "dc1_page_views_2"

"""On a real cluster whose Python is bare: nothing without the pack, everything with it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.spark_cluster import SPARK_HOME, SparkCluster
from loader.spark.packing import PackedEnvironment, python_version
from loader.spark.session import UNPACKED
from tests.loader.spark.bare_executors import MODULES

# Two applications of three JVMs each: long on a machine that does other things as well.
pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def findings(spark_cluster: SparkCluster, packed: PackedEnvironment) -> Any:
    request = {
        "master": spark_cluster.master,
        "conf": spark_cluster.conf,
        "python": str(spark_cluster.python),
        "cache": str(packed.path.parent),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "tests.loader.spark.bare_executors", json.dumps(request)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    return json.loads(ended.stdout.splitlines()[-1])


def test_their_python_has_nothing_but_spark(findings: Any) -> None:
    (found,) = findings["without"]["imported"]
    missing = {name for name in MODULES if found[name].startswith("ModuleNotFoundError")}
    assert missing == set(MODULES)
    assert found["pyspark"].startswith(str(SPARK_HOME / "python" / "lib" / "pyspark.zip"))


def test_both_import_all_of_it_from_the_pack(findings: Any) -> None:
    assert findings["reused"]
    workers = findings["with"]["imported"]
    assert len({found["directory"] for found in workers}) == 2
    for found in workers:
        inside = f"{found['directory']}/{UNPACKED}/"
        assert {name: found[name] for name in MODULES if not found[name].startswith(inside)} == {}
        assert found["wire.records"] == f"{inside}penstock/programs/wire/records.py"
        assert found["pyspark"].startswith(str(SPARK_HOME / "python" / "lib" / "pyspark.zip"))


def test_what_spark_says_becomes_one_line(findings: Any) -> None:
    said = findings["without"]
    assert said["no module"].startswith("executors have no Python module `pyarrow`: --pack-env ")
    version = python_version()
    assert said["other version"] == (
        f"executors run Python {version}, but this driver runs 3.0: set spark.pyspark.python to a "
        "Python 3.0 that every executor has"
    )
    assert said["no interpreter"] == (
        "executors cannot start `/nowhere/python3` (error=2, No such file or directory): set "
        "spark.pyspark.python to an interpreter that every executor has"
    )

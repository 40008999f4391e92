"""What Spark is told for each kind of cluster."""

import sys
from pathlib import Path

import pytest

from loader.errors import EnvironmentFailed
from loader.spark.packing import PackedEnvironment
from loader.spark.session import driver_environment, spark_settings

PACKED = PackedEnvironment(
    path=Path("/var/cache/of us/penstock-environment-1.zip"),
    bytes=1,
    files=1,
    distributions=(),
    python_version="3.11",
    driver_path=(Path("/opt/penstock/site-packages"),),
    reused=True,
    seconds=0.0,
)
CLUSTERS = ["spark://127.0.0.1:7077", "yarn", "k8s://https://k:443", "local-cluster[2,1,1024]"]
ARCHIVE = "file:///var/cache/of%20us/penstock-environment-1.zip#penstock-environment"


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,4]"])
def test_a_local_master_runs_this_very_python_on_loopback(master: str) -> None:
    assert spark_settings(PACKED, master, {}) == {}
    expected = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environ = {"PYSPARK_PYTHON": "/other"}
    assert driver_environment(PACKED, master, {}, environ) == expected
    environ["SPARK_LOCAL_IP"] = expected["SPARK_LOCAL_IP"] = "127.0.0.2"
    assert driver_environment(PACKED, master, {}, environ) == expected


@pytest.mark.parametrize("master", CLUSTERS)
def test_executors_of_every_cluster_find_the_pack_where_they_work(master: str) -> None:
    archives = "spark.yarn.dist.archives" if master == "yarn" else "spark.archives"
    assert spark_settings(PACKED, master, {}) == {
        archives: ARCHIVE,
        "spark.executorEnv.PYTHONPATH": "penstock-environment",
    }


def test_what_the_user_set_stays() -> None:
    conf = {"spark.archives": "/a.zip#a", "spark.executorEnv.PYTHONPATH": "/opt/more"}
    assert spark_settings(PACKED, "k8s://https://k:443", conf) == {
        "spark.archives": f"/a.zip#a,{ARCHIVE}",
        "spark.executorEnv.PYTHONPATH": "penstock-environment:/opt/more",
    }


def test_the_interpreter_of_executors_plans_here_with_our_packages(tmp_path: Path) -> None:
    python = program(tmp_path / "python3.11")
    environ = {"PATH": str(tmp_path), "PYTHONPATH": "/mine"}
    path = "/opt/penstock/site-packages:/mine"
    assert driver_environment(PACKED, "yarn", {}, environ) == {
        "PYSPARK_PYTHON": "python3.11",
        "PYSPARK_DRIVER_PYTHON": "python3.11",
        "PYTHONPATH": path,
    }
    again = driver_environment(PACKED, "yarn", {}, {**environ, "PYTHONPATH": path})
    assert again["PYTHONPATH"] == path
    asked = driver_environment(PACKED, "yarn", {"spark.pyspark.python": str(python)}, environ)
    assert (asked["PYSPARK_PYTHON"], asked["PYSPARK_DRIVER_PYTHON"]) == (str(python), str(python))
    # As with Spark itself, the setting wins over the variable.
    environ["PYSPARK_PYTHON"] = "/not/this/one"
    assert (
        driver_environment(PACKED, "yarn", {"spark.pyspark.python": str(python)}, environ) == asked
    )


def test_an_interpreter_that_is_not_here_is_told_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match=r"`python3\.11`, the executors' interpreter, is"):
        driver_environment(PACKED, "yarn", {}, {"PATH": str(tmp_path)})


def test_without_a_pack_executors_have_what_the_user_says() -> None:
    assert driver_environment(None, "yarn", {}, {"PATH": "/"}) == {}
    assert driver_environment(None, "yarn", {"spark.pyspark.python": "/env/python"}, {}) == {
        "PYSPARK_PYTHON": "/env/python",
        "PYSPARK_DRIVER_PYTHON": "/env/python",
    }


def program(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path

"""Java's classes, written down by one JVM of Spark's and mapped by the next."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

from loader.spark.java_classes import MAKING_SECONDS, PREFIX, JavaClasses
from tests.penstock.running import REPOSITORY

# On a machine that is very busy: a processor needs 15 seconds to write them.
MADE_WITHIN: Final = 360.0
WITHIN: Final = MADE_WITHIN + 120.0
# What a load does of it, with its directory and whether it makes them.
_PROGRAM: Final = """
import json, os, sys
from pathlib import Path

from loader.config import LoaderConfig, Spark
from loader.spark.java_classes import JavaClasses
from penstock.services.load.spark import SparkJvm
from pyspark import SparkContext

folder, makes, patience = Path(sys.argv[1]), sys.argv[2] == "makes", float(sys.argv[3])
conf = {"spark.driver.memory": "512m", "spark.local.dir": str(folder / "spark")}
config = LoaderConfig(
    cluster="c", brokers=("b:1",), registry="http://r:1", root=f"file://{folder}/root",
    topics=("t",), spark=Spark(master="local[1]", conf=conf),
)
classes = JavaClasses(folder / "kept", makes=makes, making_seconds=patience)
with SparkJvm(config, classes) as jvm:
    spark = jvm.start(None)
    rows = spark.session.range(10).count()
    maps = Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text()
    spark.end()
print(json.dumps({"rows": rows, "mapped": [each for each in maps.split() if ".jsa" in each]}))
"""


def run(folder: Path, how: str) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(folder), how, str(MADE_WITHIN)],
        cwd=REPOSITORY,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_next_jvm_maps_what_the_first_has_read(tmp_path: Path) -> None:
    first = run(tmp_path, "makes")
    (kept,) = files(tmp_path / "kept")
    assert str(kept) not in first["mapped"]
    before = kept.stat().st_mtime_ns
    second = run(tmp_path, "makes")
    assert second["rows"] == 10
    assert str(kept) in second["mapped"]
    assert files(tmp_path / "kept") == [kept]
    assert kept.stat().st_mtime_ns > before  # it is of use

    assert JavaClasses(kept.parent, makes=False).options("", {}, os.environ)
    damaged = bytearray(kept.read_bytes())
    for at in range(1 << 20, len(damaged), 1 << 20):
        damaged[at : at + 64] = b"\xff" * 64
    kept.chmod(0o600)
    kept.write_bytes(damaged)
    assert run(tmp_path, "uses")["rows"] == 10

    os.truncate(kept, len(damaged) // 2)  # which would end a JVM
    assert JavaClasses(kept.parent, makes=False).options("", {}, os.environ) == ""
    kept.unlink()  # it is large, and pytest keeps what tests have left


def made(folder: Path, asked: str = "") -> str:
    return JavaClasses(folder, makes=True).options(asked, {}, {})


def test_a_process_that_stays_makes_none(tmp_path: Path) -> None:
    classes = JavaClasses(tmp_path, makes=False)
    assert classes.options("", {}, {}) == ""
    assert classes.patience == 0
    classes.keep(whole=True)
    assert files(tmp_path) == []


def test_one_that_ends_makes_them(tmp_path: Path) -> None:
    classes = JavaClasses(tmp_path / "not" / "there", makes=True)
    option, *_ = classes.options("", {}, {}).split()
    name, _, path = option.partition("=")
    assert name == "-XX:ArchiveClassesAtExit"
    assert classes.patience == MAKING_SECONDS
    Path(path).write_bytes(b"12345")
    classes.keep(whole=True)
    (kept,) = files(tmp_path / "not" / "there")
    assert kept.name.startswith(PREFIX)
    assert kept.name.endswith("-5.jsa")
    assert made(kept.parent).startswith(f"-XX:SharedArchiveFile={kept} ")


@pytest.mark.parametrize(("written", "whole"), [(True, False), (False, False), (False, True)])
def test_a_jvm_that_was_killed_has_left_none(tmp_path: Path, *, written: bool, whole: bool) -> None:
    classes = JavaClasses(tmp_path, makes=True)
    option, *_ = classes.options("", {}, {}).split()
    if written:
        Path(option.partition("=")[2]).write_bytes(b"half")
    classes.keep(whole=whole)
    assert files(tmp_path) == []


@pytest.mark.parametrize("option", ["-Xshare:off", "-XX:SharedArchiveFile=/mine", "-Xshare:dump"])
def test_what_the_operator_says_is_left_to_him(tmp_path: Path, option: str) -> None:
    assert made(tmp_path, f"-Xss4m {option}") == ""
    for variable in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"):
        assert JavaClasses(tmp_path, makes=True).options("", {}, {variable: option}) == ""
    assert files(tmp_path) == []


def test_another_class_path_has_another_file(tmp_path: Path) -> None:
    plain = JavaClasses(tmp_path, makes=True).options("", {}, {})
    assert plain == JavaClasses(tmp_path, makes=True).options("", {"spark.ui.port": "1"}, {})
    extra = {"spark.driver.extraClassPath": "/opt/more.jar"}
    others = [
        JavaClasses(tmp_path, makes=True).options("", extra, {}),
        JavaClasses(tmp_path, makes=True).options("", {}, {"HADOOP_CONF_DIR": "/etc/hadoop"}),
    ]
    assert len({plain, *others}) == 3


def test_a_directory_that_a_shell_would_split_is_not_used(tmp_path: Path) -> None:
    for name in ("with blank", 'with"quote', "with'quote", "with\\stroke"):
        assert made(tmp_path / name) == ""


def test_whoever_has_no_home_loads_all_the_same() -> None:
    assert JavaClasses(None, makes=True).options("", {}, {}) == ""


def test_a_directory_that_cannot_be_made_keeps_nobody_from_loading(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    assert made(tmp_path / "file" / "below") == ""
    assert "Java's classes cannot be kept" in caplog.text


def test_what_nobody_used_for_long_is_removed(tmp_path: Path) -> None:
    day = 24 * 3600
    for name, days in (
        (f"{PREFIX}aa-1.jsa", 31),
        (f"{PREFIX}bb-1.jsa", 29),
        (f".{PREFIX}cc.1.jsa", 2),
        (f".{PREFIX}dd.1.jsa", 0),
        ("penstock-environment-1.zip", 365),
    ):
        path = tmp_path / name
        path.write_text("1")
        at = time.time() - days * day
        os.utime(path, (at, at))
    assert made(tmp_path)
    assert [each.name for each in files(tmp_path)] == [
        f".{PREFIX}dd.1.jsa",
        f"{PREFIX}bb-1.jsa",
        "penstock-environment-1.zip",
    ]

"""Java's classes, written down by one JVM of Spark's and mapped by the next."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from cluster.zookeeper_server.jars import find_java
from loader.spark.java_classes import MAKING_SECONDS, PREFIX, JavaClasses

pytestmark = pytest.mark.long


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
    assert options_in(tmp_path, makes=True)
    assert [each.name for each in files(tmp_path)] == [
        f".{PREFIX}dd.1.jsa",
        f"{PREFIX}bb-1.jsa",
        "penstock-environment-1.zip",
    ]


def is_mapped(options: str) -> bool:
    """Whether Java, which must work, reads classes from an archive of its own."""
    java = [str(find_java()), *options.split(), "-Xlog:class+load", "-version"]
    ran = subprocess.run(java, capture_output=True, text=True, check=True)
    return "shared objects file (top)" in ran.stdout


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def options_in(folder: Path, *, makes: bool = False) -> str:
    return JavaClasses(folder, makes=makes).options("", {}, {})


def test_the_next_jvm_maps_what_the_first_has_written(tmp_path: Path) -> None:
    classes = JavaClasses(tmp_path, makes=True)
    assert not is_mapped(classes.options("", {}, {}))
    classes.keep(whole=True)
    (kept,) = files(tmp_path)
    assert is_mapped(options_in(tmp_path))

    damaged = bytearray(kept.read_bytes())
    for at in range(1 << 14, len(damaged), 1 << 14):
        damaged[at : at + 64] = b"\xff" * 64
    kept.chmod(0o600)
    kept.write_bytes(damaged)
    assert not is_mapped(options_in(tmp_path))
    os.truncate(kept, len(damaged) // 2)  # which would end a JVM
    assert options_in(tmp_path) == ""


def test_a_process_that_stays_makes_none(tmp_path: Path) -> None:
    classes = JavaClasses(tmp_path, makes=False)
    assert (classes.options("", {}, {}), classes.patience) == ("", 0)
    classes.keep(whole=True)
    assert files(tmp_path) == []


def test_one_that_ends_makes_them(tmp_path: Path) -> None:
    classes = JavaClasses(tmp_path / "not" / "there", makes=True)
    name, _, path = classes.options("", {}, {}).split()[0].partition("=")
    assert (name, classes.patience) == ("-XX:ArchiveClassesAtExit", MAKING_SECONDS)
    Path(path).write_bytes(b"12345")
    classes.keep(whole=True)
    (kept,) = files(tmp_path / "not" / "there")
    assert kept.name.startswith(PREFIX)
    assert kept.name.endswith("-5.jsa")
    assert options_in(kept.parent).startswith(f"-XX:SharedArchiveFile={kept} ")


@pytest.mark.parametrize(("written", "whole"), [(True, False), (False, False), (False, True)])
def test_a_jvm_that_was_killed_has_left_none(tmp_path: Path, *, written: bool, whole: bool) -> None:
    classes = JavaClasses(tmp_path, makes=True)
    option, *_ = classes.options("", {}, {}).split()
    if written:
        Path(option.partition("=")[2]).write_bytes(b"half")
    classes.keep(whole=whole)
    assert files(tmp_path) == []


@pytest.mark.parametrize("option", ["-Xshare:off", "-XX:SharedArchiveFile=/mine", "-Xshare:dump"])
def test_an_operators_own_options_win(tmp_path: Path, option: str) -> None:
    assert JavaClasses(tmp_path, makes=True).options(f"-Xss4m {option}", {}, {}) == ""
    for variable in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"):
        assert JavaClasses(tmp_path, makes=True).options("", {}, {variable: option}) == ""
    assert files(tmp_path) == []


def test_another_class_path_has_another_file(tmp_path: Path) -> None:
    def named(settings: dict[str, str], environ: dict[str, str]) -> str:
        return JavaClasses(tmp_path, makes=True).options("", settings, environ)

    plain = named({}, {})
    assert plain == named({"spark.ui.port": "1"}, {})
    extra = named({"spark.driver.extraClassPath": "/opt/more.jar"}, {})
    assert len({plain, extra, named({}, {"HADOOP_CONF_DIR": "/etc/hadoop"})}) == 3


def test_a_directory_that_cannot_be_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As a shell would split it, as there is none, or as it cannot be made."""
    for name in ("with blank", 'with"quote', "with'quote", "with\\stroke"):
        assert options_in(tmp_path / name, makes=True) == ""
    assert JavaClasses(None, makes=True).options("", {}, {}) == ""
    (tmp_path / "file").write_text("")
    assert options_in(tmp_path / "file" / "below", makes=True) == ""
    assert "cannot cache Java classes" in caplog.text

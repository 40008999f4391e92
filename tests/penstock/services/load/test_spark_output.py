"""What Spark's JVM writes, read from a real pipe."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.waiting import wait_until
from penstock.services.load.spark import LOGGER, SparkOutput, quiet_java_options


@pytest.fixture
def output(caplog: pytest.LogCaptureFixture) -> Iterator[SparkOutput]:
    caplog.set_level(logging.INFO, LOGGER)
    with SparkOutput() as output:
        yield output


def test_it_becomes_events(output: SparkOutput, caplog: pytest.LogCaptureFixture) -> None:
    os.write(output.descriptor, b"WARNING: Using incubator modules: jdk.incubator.vector\n")
    os.write(output.descriptor, b'Setting default log level to "WARN".\nERROR Exec')
    os.write(output.descriptor, b"utor: lost task 3 | Traceback\nWARN Utils: slow\n\n")
    os.write(output.descriptor, b"thread '<unnamed>' panicked \xff\n" + b"x" * 9_000 + b"\n")
    wait_until(lambda: len(caplog.records) == 4, within=10, what="all lines are read")
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("ERROR", "Executor: lost task 3 | Traceback"),
        ("WARNING", "Utils: slow"),
        ("INFO", "thread '<unnamed>' panicked \N{REPLACEMENT CHARACTER}"),
        ("INFO", "x" * 2_000),
    ]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("", ""),
        ("JAVA_HOME is not set\n", "JAVA_HOME is not set"),
        (
            "WARNING: Using incubator modules: x\nUnrecognized option: -Xyz\nError: Could not "
            "create the Java Virtual Machine.\nError: A fatal exception has occurred.\n",
            "Unrecognized option: -Xyz",
        ),
        ("one thing\nanother\n", "another"),
    ],
)
def test_why_a_jvm_did_not_start(output: SparkOutput, lines: str, why: str) -> None:
    os.write(output.descriptor, lines.encode())
    assert output.why_it_ended() == why


def test_whoever_has_a_way_of_logging_keeps_it(tmp_path: Path) -> None:
    ours = quiet_java_options("-Xss4m", {})
    assert ours.startswith("-Xss4m -Dlog4j2.configurationFile=file:///")
    assert Path(ours.partition("=file://")[2]).is_file()
    asked = "-Dlog4j2.configurationFile=/etc/spark/quiet.xml"
    assert quiet_java_options(asked, {}) == asked
    (tmp_path / "conf").mkdir()
    assert "log4j2" in quiet_java_options("", {"SPARK_HOME": str(tmp_path)})
    (tmp_path / "conf" / "log4j2.properties").write_text("")
    assert quiet_java_options("", {"SPARK_HOME": str(tmp_path)}) == ""
    assert quiet_java_options("", {"SPARK_CONF_DIR": str(tmp_path / "conf")}) == ""

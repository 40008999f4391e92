"""Spark's own Kafka source: its Python and its jars, installed once below `.cache/`.

It has its own PySpark, of a version for which the Kafka source, its dependencies and Avro are
available, since they work with no other version.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from bench.figures.measurement import NotMeasured
from harness.java.maven_jars import CACHE, MavenJars

VERSION: Final = "4.0.0"
_JARS: Final = MavenJars(
    "Spark's Kafka source",
    f"spark-kafka-{VERSION}",
    (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", VERSION),
        ("org.apache.kafka", "kafka-clients", "3.9.0"),
        ("org.apache.commons", "commons-pool2", "2.12.0"),
        ("org.apache.spark", "spark-avro_2.13", VERSION),
    ),
    alone=True,  # PySpark brings the rest
)
_DOWNLOAD_SECONDS: Final = 1200


class SparkPeer(msgspec.Struct, frozen=True):
    """The Python and the jars of the peer's driver."""

    python: Path
    jars: tuple[str, ...]


def spark_peer() -> SparkPeer:
    """Installs the peer: downloads half a gigabyte on first use. Raises NotMeasured if that
    fails."""
    classpath = _JARS.classpath
    if classpath is None:
        raise NotMeasured(_JARS.why_not)
    return SparkPeer(_python(), tuple(classpath.split(":")))


def _python() -> Path:
    """The interpreter of a virtual environment with PySpark."""
    home = CACHE / f"pyspark-{VERSION}"
    interpreter, completion_mark = home / "bin" / "python", home / "complete"
    if completion_mark.exists():
        return interpreter
    print(f"installing PySpark {VERSION} (455 MB) into {home}", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    _run(sys.executable, "-m", "venv", str(home))
    pip = (str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(*pip, f"pyspark=={VERSION}")
    completion_mark.touch()
    return interpreter


def _run(*command: str) -> None:
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotMeasured(f"PySpark {VERSION}: not installed in {_DOWNLOAD_SECONDS} s") from None
    if run.returncode:
        lines = (run.stdout + run.stderr).strip().splitlines() or ["no output"]
        raise NotMeasured(f"PySpark {VERSION} cannot be installed: {lines[-1]}")

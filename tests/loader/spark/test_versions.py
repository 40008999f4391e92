"""The loader's tests with each PySpark that pyproject.toml accepts, besides the newest, which all
other tests use: loads, the data source as batches and as a stream, and Hadoop's filesystems.

Each version has a Python of its own, in which everything else is what this process has.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from harness.hadoop.foreign_pythons import PythonUnavailable, python_with_ours

ROOT: Final = Path(__file__).resolve().parents[3]
FILES: Final = (
    "tests/loader/run/test_load.py",
    "tests/loader/spark/data_source",
    "tests/loader/spark/test_java_classes.py",
    "tests/loader/store",
    "tests/loader/test_schema_changes.py",
)

# PySpark 4.1 leaves sockets to the garbage collector.
_LEAKS: Final = ("-W", "ignore::ResourceWarning")

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("version", ["4.1", "4.2"])
def test_loads_and_sources(version: str, tmp_path: Path) -> None:
    try:
        python = python_with_ours(f"pyspark-{version}", tmp_path / "python")
    except PythonUnavailable as error:
        pytest.skip(str(error))
    plain = {name: value for name, value in os.environ.items() if name not in {"CI", "TMPDIR"}}
    answer = subprocess.run(
        [str(python), "-c", "import pyspark; print(pyspark.__version__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.startswith(f"{version}.")
    run = subprocess.run(
        [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *_LEAKS, *FILES],
        cwd=ROOT,
        env={**plain, "PYTEST_DEBUG_TEMPROOT": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=3000,
    )
    assert run.returncode == 0, run.stdout[-10_000:]

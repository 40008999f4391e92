"""Runs of pytest within a test: of files that the test writes, in a directory of their own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
_RULES: Final = ROOT / "tests/conftest.py"
_PATIENT: Final = "GRACE_SECONDS = 60.0"
_IMPATIENT: Final = "GRACE_SECONDS = 0.5"

runs_tests = pytest.mark.not_quick("runs tests within the tests")


def pytest_run(
    directory: Path, *arguments: str, files: dict[str, str], **environment: str
) -> subprocess.CompletedProcess[str]:
    """`files` by name: `{"a": …}` is test_a.py."""
    for name, text in files.items():
        (directory / f"test_{name}.py").write_text(text)
    plain = {name: value for name, value in os.environ.items() if name not in {"CI", "TMPDIR"}}
    found = {"PYTHONPATH": str(ROOT), "PYTEST_DEBUG_TEMPROOT": str(directory)}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=directory,
        env={**plain, **found, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,  # of a machine on which much else runs
    )


def run_by_our_rules(
    directory: Path, *tests: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """With tests/conftest.py beside the files, less patient."""
    rules = _RULES.read_text()
    assert _PATIENT in rules
    (directory / _RULES.name).write_text(rules.replace(_PATIENT, _IMPATIENT))
    files = {str(number): test for number, test in enumerate(tests)}
    how = ["-q", "-rs", "--continue-on-collection-errors"]
    return pytest_run(directory, *how, files=files, **environment)

"""The rules of conftest.py, each seen to fail a test run that breaks it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")


def run(directory: Path, *tests: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Test files in a directory of their own, with our conftest.py beside them, less patient."""
    patient, rules = "GRACE_SECONDS = 60.0", CONFTEST.read_text()
    assert patient in rules
    (directory / CONFTEST.name).write_text(rules.replace(patient, "GRACE_SECONDS = 0.5"))
    for number, test in enumerate(tests):
        (directory / f"test_{number}.py").write_text(test)
    repository = {"PYTHONPATH": str(CONFTEST.parent.parent)}
    plain = {name: value for name, value in os.environ.items() if name not in {"CI", "TMPDIR"}}
    how = ["-q", "-p", "no:cacheprovider", "-rs", "--continue-on-collection-errors"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *how],
        cwd=directory,
        env={**plain, **repository, **environment, "PYTEST_DEBUG_TEMPROOT": str(directory)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,  # of a machine on which much else runs
    )


SKIPPED = "import pytest\ndef test_it(): pytest.skip('no kcat')\n"
NOT_COLLECTED = "import pytest\npytest.skip('no kafka', allow_module_level=True)\n"
EXPECTED = "import pytest\n@pytest.mark.xfail\ndef test_it(): raise ValueError\n"


@pytest.mark.not_quick("runs tests within the tests")
def test_a_skipped_test_says_why_and_fails_under_ci(tmp_path: Path) -> None:
    """A failure that is expected is none of these."""
    at_home = run(tmp_path, SKIPPED, NOT_COLLECTED, EXPECTED)
    assert at_home.returncode == 0, at_home.stdout
    assert "2 skipped, 1 xfailed" in at_home.stdout
    in_ci = run(tmp_path, SKIPPED, NOT_COLLECTED, EXPECTED, CI="true")
    assert in_ci.returncode == 1
    assert "1 failed, 1 xfailed, 1 error" in in_ci.stdout
    for why in ("no kcat", "no kafka"):
        assert why in at_home.stdout
        assert f"skipped, and CI=true forbids it: Skipped: {why}" in in_ci.stdout


@pytest.mark.not_quick("runs tests within the tests")
def test_a_process_that_is_left_behind_fails_the_run(tmp_path: Path) -> None:
    test = (
        "import subprocess\n"
        "def test_it():\n"
        "    # Until it is what it will be: between fork and exec it has no environment.\n"
        "    wait = 'until grep -q sleep /proc/$!/cmdline; do sleep 0.01; done'\n"
        "    command = f'sleep 20 >/dev/null 2>&1 & echo $! >pid; {wait}'\n"
        "    subprocess.run(command, shell=True)\n"
    )
    done = run(tmp_path, test)
    os.kill(int((tmp_path / "pid").read_text()), 9)
    assert done.returncode == 1
    assert "tests left processes behind" in done.stdout
    assert "sleep 20" in done.stdout


@pytest.mark.not_quick("runs tests within the tests")
def test_a_file_that_is_left_behind_fails_the_run(tmp_path: Path) -> None:
    test = "import tempfile\ndef test_it(): tempfile.mkdtemp(prefix='forgotten')\n"
    done = run(tmp_path, test)
    assert done.returncode == 1
    assert "tests left files behind: forgotten" in done.stdout

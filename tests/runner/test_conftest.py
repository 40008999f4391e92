"""The rules of conftest.py, each seen to fail a test run that breaks it."""

import os
from pathlib import Path

from tests.runner.inner_runs import run_by_our_rules as run
from tests.runner.inner_runs import runs_tests

SKIPPED = "import pytest\ndef test_it(): pytest.skip('no kcat')\n"
NOT_COLLECTED = "import pytest\npytest.skip('no kafka', allow_module_level=True)\n"
EXPECTED = "import pytest\n@pytest.mark.xfail\ndef test_it(): raise ValueError\n"


@runs_tests
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


@runs_tests
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


@runs_tests
def test_a_file_that_is_left_behind_fails_the_run(tmp_path: Path) -> None:
    test = "import tempfile\ndef test_it(): tempfile.mkdtemp(prefix='forgotten')\n"
    done = run(tmp_path, test)
    assert done.returncode == 1
    assert "tests left files behind: forgotten" in done.stdout

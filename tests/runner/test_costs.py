"""What files of tests cost."""

import re
from pathlib import Path

import pytest

from tests.runner.inner_runs import pytest_run

WORKS = """
import subprocess, sys, time
import pytest

BUSY = "import time\\nwhile time.process_time() < 0.6: pass"

@pytest.fixture(scope="module", autouse=True)
def program():
    with subprocess.Popen([sys.executable, "-c", BUSY]):
        yield

@pytest.mark.parametrize("number", range(4))
def test_works(number):
    end = time.process_time() + 0.1
    while time.process_time() < end: pass
"""
IDLE = "import time\ndef test_waits(): time.sleep(0.5)\ndef test_nothing(): pass\n"
COSTS = re.compile(r"^ +(\d+\.\d)  (test_\w+\.py)$", re.MULTILINE)


@pytest.mark.not_quick("runs tests within the tests, which keep a processor busy")
@pytest.mark.parametrize("forks", [0, 2])
def test_what_tests_and_their_programs_use_is_counted_by_file(forks: int, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    plugins = ["-p", "tests.runner.forking", "-p", "tests.runner.costs"]
    options = [*plugins, f"--forks={forks}", "--costs=5"]
    done = pytest_run(tmp_path, *options, files={"works": WORKS, "idle": IDLE})
    assert done.returncode == 0, done.stdout + done.stderr
    said = [(name, float(used)) for used, name in COSTS.findall(done.stdout)]
    assert [name for name, _ in said] == ["test_works.py", "test_idle.py"], done.stdout
    assert 1.0 <= said[0][1] < 5.0
    assert said[1][1] < 0.3

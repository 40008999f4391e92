"""Tests that are collected once, and run by children of that process."""

import subprocess
from itertools import chain
from pathlib import Path

import pytest

from tests.runner.forking import FEW, tickets
from tests.runner.inner_runs import pytest_run, runs_tests

IN_A_CHILD = """
import os
import time
from pathlib import Path
import pytest

COLLECTED = os.getpid()

@pytest.fixture(scope="session", autouse=True)
def ended():
    Path(f"begun-{os.getpid()}").touch()
    while len(list(Path().glob("begun-*"))) < 2:  # or the first one may run all files
        time.sleep(0.01)
    yield
    Path(f"ended-{os.getpid()}").touch()

@pytest.mark.parametrize("number", range(30))
def test_it(number, tmp_path, capfd):
    assert os.getppid() == COLLECTED
    assert list(tmp_path.iterdir()) == []
    os.write(1, b"said")
    assert capfd.readouterr().out == "said"
"""
ENDS = "import os\ndef test_first(): pass\ndef test_ends(): os._exit(0)\n"


def run(directory: Path, *arguments: str, **files: str) -> subprocess.CompletedProcess[str]:
    (directory / "pytest.ini").write_text("[pytest]\n")
    how = ["--forks=2", "-p", "tests.runner.forking", "-p", "no:randomly"]
    return pytest_run(directory, *how, *arguments, files=files)


@pytest.mark.parametrize(
    ("files", "most", "sizes"),
    [
        ("", None, []),
        ("", FEW, []),
        ("aab", None, [2, 1]),
        ("aab", FEW, [2, 1]),
        ("a" * 99 + "b", None, [99, 1]),
        ("a" * FEW + "b", FEW, [FEW, 1]),
        ("a" * (2 * FEW + 3), FEW, [FEW, FEW, 3]),
    ],
)
def test_a_ticket_is_for_tests_of_one_file(files: str, most: int | None, sizes: list[int]) -> None:
    found = list(tickets([Path(each) for each in files], most))
    assert [each.end - each.first for each in found] == sizes
    ranges = [range(each.first, each.end) for each in found]
    assert list(chain.from_iterable(ranges)) == list(range(len(files)))
    assert {each.file.name for each in found} == set(files)


@runs_tests
@pytest.mark.parametrize("arguments", [(), ("--basetemp=temporary",)])
def test_all_are_run_once_and_session_fixtures_end_in_each_child(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    done = run(tmp_path, *arguments, a=IN_A_CHILD, b=IN_A_CHILD)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "60 passed" in done.stdout
    assert len(list(tmp_path.glob("ended-*"))) == 2


@runs_tests
def test_a_child_that_ends_before_its_time_fails_the_run(tmp_path: Path) -> None:
    """Also if it says that all went well."""
    done = run(tmp_path, ends=ENDS)
    assert done.returncode == 1
    assert "test_ends.py::test_ends" in done.stdout


@runs_tests
def test_a_session_fixture_that_fails_in_the_end_fails_the_run(tmp_path: Path) -> None:
    fixture = "@pytest.fixture(scope='session')\ndef it():\n    yield\n    assert False, 'left'\n"
    done = run(tmp_path, late=f"import pytest\n{fixture}def test_it(it): pass\n")
    assert done.returncode == 1
    assert "left" in done.stdout

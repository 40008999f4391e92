"""Which tests a quick run has, and which are run only where long ones are wanted."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runner.inner_runs import pytest_run, runs_tests
from tests.runner.selection import (
    ROOT,
    bound_examples,
    fixtures_that_start,
    imports,
    is_of,
    starter_of,
)

SOME = """
import pytest

def test_plain(): pass

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.long
def test_long(): pass

@pytest.mark.fuzz
def test_fuzz(): pass

@pytest.mark.not_quick("many bytes")
def test_many_bytes(): pass

def test_starts_a_program():
    import subprocess
    subprocess.run(["true"])
"""
STARTS = "import subprocess\n\ndef test_it(): pass\n"
MARKERS = "slow: s\n  long: l\n  fuzz: f\n  not_quick(why): n"


@runs_tests
@pytest.mark.parametrize(
    ("options", "passed", "left_out"),
    [
        ([], 6, "left out: 1 tests marked long"),
        (["--long"], 7, ""),
        (["--long", "-m", "long"], 1, ""),
        (["--quick"], 1, "1 files that start programs, 1 tests marked slow, 1 tests marked long"),
    ],
)
def test_a_run_says_what_it_leaves_out(
    tmp_path: Path, options: list[str], passed: int, left_out: str
) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmarkers =\n  {MARKERS}\n")
    how = ["--import-mode=importlib", "-p", "no:randomly", "-p", "tests.runner.selection"]
    run = pytest_run(tmp_path, *how, *options, files={"some": SOME, "starts": STARTS})
    assert f"{passed} passed" in run.stdout, run.stdout + run.stderr
    assert left_out in run.stdout
    assert ("left out" in run.stdout) == bool(left_out)
    assert ("a quick test starts ['true']" in run.stdout) == ("--quick" in options)


def test_imports_are_found_as_they_are_written(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "import a.b\nfrom c import d, e  # and f\nfrom g.h import (\n    i,\n    j,\n)\n"
        "if TYPE_CHECKING:\n    from k import l\n"
    )
    assert imports(file) == {"a.b", "c", "c.d", "c.e", "g.h", "g.h.i", "g.h.j"}


def test_a_module_starts_what_those_it_imports_start() -> None:
    assert starter_of(ROOT / "harness/penstock/broker.py").startswith(
        "harness.processes.server_process"
    )
    assert starter_of(ROOT / "tests/conftest.py") == ""


def test_fixtures_of_servers_are_known_by_name() -> None:
    assert {"running_broker", "zookeeper", "spark"} <= fixtures_that_start(ROOT / "tests")
    assert "forks" not in fixtures_that_start(ROOT / "tests")


@pytest.mark.parametrize(
    ("file", "module", "is_about_it"),
    [
        ("tests/broker/api/test_log_apis.py", "broker/storage/log.py", True),  # imports it
        (
            "tests/broker/replicas/test_log_opening.py",
            "broker/storage/log_opening.py",
            True,
        ),  # its name
        ("tests/agent/files/test_rotations.py", "agent/files/missed_names.py", True),  # its folder
        ("tests/runner/test_selection.py", "broker/storage/log.py", False),
        ("tests/agent/journal/test_journal.py", "broker/journal.py", False),  # another package
    ],
)
def test_the_tests_of_a_module_are_found(file: str, module: str, is_about_it: bool) -> None:
    assert is_of(ROOT / file, Path(module)) == is_about_it


def test_a_property_has_no_more_examples_than_the_profile() -> None:
    seen = []

    @settings(max_examples=300)
    @given(st.integers())
    def test_it(number: int) -> None:
        seen.append(number)

    bound_examples(SimpleNamespace(function=test_it), 4)
    test_it()
    assert 0 < len(seen) <= 4

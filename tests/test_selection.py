"""What `--quick` leaves out, and that it says so."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reaching import reaches
from tests.selection import MARKS, STARTERS, bound_examples, told, why_not_quick

ROOT = Path(__file__).resolve().parents[1]
SOME = """
import subprocess
import pytest

def test_plain(): pass

@pytest.mark.timeout(900)
def test_patient(): pass

def test_server(): subprocess.Popen(["true"]).wait()

def test_runs_a_tool(): subprocess.run(["true"])

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.slow
@pytest.mark.long
def test_long(): pass

@pytest.mark.fuzz
def test_fuzz(): pass

@pytest.mark.not_quick("of many bytes")
def test_many_bytes(): pass
"""
MARKERS = "slow: s\n  long: l\n  fuzz: f\n  not_quick(why): n\n  timeout: t"


def quick(
    directory: Path, text: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return chosen(directory, text, "--quick", *arguments, **environment)


def chosen(
    directory: Path, text: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A run of these tests, in a file that is taken for one of ours."""
    (directory / "tests").mkdir()
    (directory / "tests" / "test_some.py").write_text(text)
    (directory / "pytest.ini").write_text(f"[pytest]\nmarkers =\n  {MARKERS}\n")
    how = ["-v", "--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:timeout"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *how, "-p", "tests.selection", *arguments],
        cwd=directory,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DEBUG_TEMPROOT": str(directory),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.not_quick("runs tests within the tests")
@pytest.mark.parametrize("forks", ["0", "2"])
def test_what_is_left_out_is_said_with_its_reason(tmp_path: Path, forks: str) -> None:
    run = quick(tmp_path, SOME, "-p", "tests.forking", f"--forks={forks}", PATH="/nowhere")
    passed = {"plain", "patient", "runs_a_tool"}
    assert {name for name in Counter(run.stdout.split()) if "::" in name} == {
        f"tests/test_some.py::test_{name}" for name in passed
    }, run.stdout + run.stderr
    assert "left out 5 tests:" in run.stdout
    for reason in (*MARKS.values(), "starts a server or a JVM, or may", "not_quick: of many bytes"):
        assert f"1  {reason}" in run.stdout or f"1  marked {reason}" in run.stdout


@pytest.mark.not_quick("runs tests within the tests")
@pytest.mark.parametrize(
    ("options", "count"), [((), 7), (("--long",), 8), (("--long", "-mlong"), 1)]
)
def test_who_is_long_is_run_where_that_is_wanted(
    tmp_path: Path, options: Sequence[str], count: int
) -> None:
    run = chosen(tmp_path, SOME, *options)
    assert f"{count} passed" in run.stdout, run.stdout + run.stderr
    assert ("left out 1 tests" in run.stdout) == (not options)


@pytest.mark.not_quick("runs tests within the tests")
def test_a_mark_without_a_reason_ends_the_run(tmp_path: Path) -> None:
    run = quick(tmp_path, SOME.replace('("of many bytes")', ""))
    assert run.returncode != 0
    assert "not_quick is to say why" in run.stdout + run.stderr


def test_of_all_that_were_collected_only_that_is_left_out(request: pytest.FixtureRequest) -> None:
    """Also of what `-k` or a folder left of them."""
    for item in request.session.items:
        marked = any(item.get_closest_marker(each) for each in (*MARKS, "not_quick"))
        assert bool(why_not_quick(item)) == (marked or reaches(item, STARTERS)), item.nodeid


def test_the_most_are_told_first() -> None:
    assert told({}) == []
    assert [line.split()[0] for line in told({"b": 2, "a": 11})[1:]] == ["11", "2"]


def test_a_property_has_no_more_examples_than_the_profile() -> None:
    seen = []

    @settings(max_examples=300)
    @given(st.integers())
    def test_it(number: int) -> None:
        seen.append(number)

    bound_examples(SimpleNamespace(function=test_it), 4)
    test_it()
    assert 0 < len(seen) <= 4

"""Mutants run in a copy: what comes of them, and what is left of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.processes.waiting import wait_until
from tests.mutants.drawing import Mutant, edits
from tests.mutants.outcomes import Outcome, Verdict, losses, table
from tests.mutants.running import MARK, Copy, Ran, end, judge

MODULE = "def is_large(size):\n    return size > 10 and size != 13\n"
TESTS = """
from example.sizes import is_large
def test_large():
    assert is_large(11) and not is_large(10)
"""
ENDLESS = "import time\ndef test_endless():\n    while True: time.sleep(1)\n"
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "while True: input()"], stdin=subprocess.PIPE,
                         start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """Of a checkout with a package and its tests."""
    checkout = tmp_path / "checkout"
    files = {
        "example/__init__.py": "",
        "example/sizes.py": MODULE,
        "tests/example/test_sizes.py": TESTS,
        "tests/endless/test_endless.py": ENDLESS,
    }
    for name, text in files.items():
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "--quiet", str(checkout)], check=True)
    return Copy(checkout, tmp_path)


def mutant(before: str) -> Mutant:
    found = [each.mutant for each in edits("example/sizes.py", MODULE)]
    return next(each for each in found if each.before == before)


def test_what_is_imported_is_the_mutant(copy: Copy) -> None:
    copy.check_imports(["example"])
    with pytest.raises(RuntimeError, match="json is imported from"):
        copy.check_imports(["json"])
    caught = judge(copy, mutant(">"), 600)
    assert caught.verdict is Verdict.CAUGHT
    assert caught.caught_by == "tests/example/test_sizes.py::test_large"
    survived = judge(copy, mutant("13"), 600)
    assert (survived.verdict, survived.passed) == (Verdict.SURVIVED, 1)
    assert not survived.time_over
    assert (copy.root / "example/sizes.py").read_text() == MODULE
    (copy.root / "example/sizes.py").write_text(MODULE.replace("13", "14"))
    assert judge(copy, mutant("13"), 600).verdict is Verdict.GONE
    assert not list(copy.root.glob("*/__pycache__"))


def test_the_time_is_over(copy: Copy) -> None:
    ran = copy.run(["tests/endless/test_endless.py"], 1)
    assert (ran.code, ran.failure, ran.passed) == (None, "", 0)


def is_over(process: Path) -> bool:
    try:
        return "\nState:\tZ" in (process / "status").read_text()
    except OSError:
        return True


def test_what_a_run_has_started_ends_with_it() -> None:
    environment = {MARK: "a mark of this test", "PATH": "/usr/bin"}
    command = [sys.executable, "-c", PARENT]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, env=environment, start_new_session=True
    )
    assert process.stdout is not None
    with process.stdout:
        child = Path("/proc", process.stdout.readline().decode().strip())
    assert child.exists()
    end(process, environment[MARK])
    wait_until(lambda: is_over(child), what="it is killed, too")


@pytest.mark.parametrize(
    ("code", "output", "failure", "unfinished"),
    [
        (0, "tests/a.py::test_a PASSED [100%]\n", "", ""),
        (1, "tests/a.py::a FAILED [1%]\nFAILED tests/a.py::a - b\n", "tests/a.py::a", ""),
        (2, "ERROR tests/a.py - ImportError: b\n1 error\n", "tests/a.py", ""),
        (4, "ImportError while loading conftest\n", "ImportError while loading conftest", ""),
        (-11, "tests/a.py::test_a ", "tests/a.py::test_a", ""),
        (None, "tests/a.py::test_a[b c] FAILED [1%]\n", "tests/a.py::test_a[b c]", ""),
        (None, "tests/a.py::test_a PASSED [1%]\ntests/a.py::test_b ", "", "tests/a.py::test_b"),
        (None, "collecting ... ", "", ""),
    ],
)  # fmt: skip
def test_what_pytest_says(code: int | None, output: str, failure: str, unfinished: str) -> None:
    ran = Ran(code, output, 1.0, 0.0)
    assert (ran.failure, ran.unfinished) == (failure, unfinished)


def test_what_was_caught_and_is_not() -> None:
    first, second = mutant(">"), mutant("13")
    before = [
        Outcome(mutant=first, verdict=Verdict.CAUGHT, caught_by="test_a"),
        Outcome(mutant=second, verdict=Verdict.SURVIVED),
    ]
    now = [Outcome(mutant=first, verdict=Verdict.SURVIVED, time_over=True), before[1]]
    assert list(losses(before, before)) == list(losses(now, before)) == []
    assert list(losses(before, now)) == [f"was caught by test_a: {now[0]}"]
    gone = [Outcome(mutant=first, verdict=Verdict.GONE)]
    assert len(list(losses(before, gone))) == 1
    assert [line.split() for line in table([*now, *gone]).splitlines()] == [
        [*Verdict, "time", "over"],
        ["example", "0", "2", "1", "1"],
        ["all", "0", "2", "1", "1"],
    ]

"""Brokers that leave out a rule are caught by a whole run: real processes, real faults, the judge.

Two of them, whose scripts are short; all are `python -m tests.cluster_history --broken all`.
"""

import importlib.util
import shutil
from pathlib import Path

import pytest

from tests.cluster_history.broken import FLAWS
from tests.cluster_history.run import run


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name", [pytest.param("too-few-in-sync", marks=pytest.mark.long), "no-truncation"]
)
def test_a_broken_broker_is_caught(name: str, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("faults cannot be injected: no C compiler (cc) is installed")
    flaw = FLAWS[name]
    outcomes = []
    for number in range(3):  # on a machine that is very busy it may not come to the fault
        outcome = run(flaw.parsed(), tmp_path / f"run-{number}", program=flaw.program(name))
        assert outcome.error == ""
        if flaw.is_caught_by(outcome.rules):
            return
        outcomes.append(outcome)
    pytest.fail(f"not caught: {outcomes}")


@pytest.mark.parametrize("name", FLAWS)
def test_a_broken_broker_is_a_program(name: str) -> None:
    assert importlib.util.find_spec(FLAWS[name].program(name)) is not None
    assert FLAWS[name].parsed().actions

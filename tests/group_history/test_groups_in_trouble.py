"""Groups on a real cluster in trouble, by a short script; and a broken coordinator that is caught.

Longer ones, and by seeds, are `make group-history`.
"""

import importlib.util
from pathlib import Path

import pytest

from tests.group_history.broken import FLAWS
from tests.group_history.run import run
from tests.group_history.script import parse

SHORT = """
begin raw-1
begin raw-2
begin paper-1
begin paper-2
pause 3
grow
pause 1
kill-coordinator raw
kill-member paper-1
pause 1
begin raw-3
pause 2
start-everywhere
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_groups_in_trouble(tmp_path: Path) -> None:
    outcome = run(parse(SHORT), tmp_path / "run")
    assert outcome.error == ""
    assert outcome.objections == ()
    assert outcome.counts["commits acknowledged"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_broken_coordinator_is_caught(tmp_path: Path) -> None:
    name = "old-generations"
    flaw = FLAWS[name]
    outcome = run(flaw.parsed(), tmp_path / "run", program=flaw.program(name))
    assert outcome.error == ""
    assert flaw.is_caught_by(outcome.rules), outcome.rules


@pytest.mark.parametrize("name", FLAWS)
def test_a_broken_broker_is_a_program(name: str) -> None:
    assert importlib.util.find_spec(FLAWS[name].program(name)) is not None

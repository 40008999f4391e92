"""Two real clusters and mirrors in trouble, by short scripts; and mirrors that are broken.

Longer ones, and by seeds, are `make mirror-history`.
"""

import importlib.util
import shutil
from pathlib import Path

import pytest

from tests.mirror_history.broken import FLAWS, SCRIPTS, WHOLE
from tests.mirror_history.run import run
from tests.mirror_history.script import parse

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None, reason="faults cannot be injected: no C compiler (cc) is installed"
)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["short", "gaps", pytest.param("opened", marks=pytest.mark.long)])
def test_mirrors_in_trouble(name: str, tmp_path: Path) -> None:
    script = parse((SCRIPTS / f"{name}.script").read_text())
    outcome = run(script, tmp_path / "run")
    assert outcome.error == ""
    assert outcome.objections == ()
    assert outcome.counts["batches copied"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["makes-anew", pytest.param("leaps", marks=pytest.mark.long)])
def test_a_broken_mirror_is_caught(name: str, tmp_path: Path) -> None:
    flaw = FLAWS[name]
    outcome = run(flaw.parsed(), tmp_path / "run", program=flaw.program(name))
    assert outcome.error == ""
    assert flaw.is_caught_by(outcome.rules), outcome.rules


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [pytest.param("overtaken", marks=pytest.mark.long), "short"])
def test_what_is_broken_is_whole_without_its_flaw(name: str, tmp_path: Path) -> None:
    script = parse((SCRIPTS / f"{name}.script").read_text())
    outcome = run(script, tmp_path / "run", program=WHOLE)
    assert (outcome.error, outcome.objections) == ("", ())


@pytest.mark.parametrize("name", FLAWS)
def test_a_broken_mirror_is_a_program(name: str) -> None:
    assert importlib.util.find_spec(FLAWS[name].program(name)) is not None

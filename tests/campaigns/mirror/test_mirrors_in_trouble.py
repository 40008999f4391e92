"""Two real clusters and mirrors in trouble, by short scripts; and mirrors that are broken."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.campaigns.mirror.broken import WHOLE
from tests.campaigns.mirror.campaign import CAMPAIGNS

CAMPAIGN: Final = CAMPAIGNS["mirror"]
LONG: Final = partial(pytest.param, marks=pytest.mark.long)

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        shutil.which("cc") is None,
        reason="faults cannot be injected: no C compiler (cc) is installed",
    ),
]


def script(name: str) -> Any:
    (path,) = (each for each in CAMPAIGN.kept_scripts() if each.stem == name)
    return CAMPAIGN.parse(path.read_text())


@pytest.mark.parametrize("name", ["short", *map(LONG, ["gaps", "opened"])])
def test_mirrors_in_trouble(name: str, tmp_path: Path) -> None:
    outcome = CAMPAIGN.run(script(name), tmp_path / "run", print)
    assert (outcome.error, list(outcome.objections)) == ("", [])
    assert outcome.counts["batches copied"]


@pytest.mark.parametrize("name", ["makes-anew", "leaps"])
def test_a_broken_mirror_is_caught(name: str, tmp_path: Path) -> None:
    outcome = CAMPAIGN.run(CAMPAIGN.flaw_script(name), tmp_path / "run", print, broken=name)
    assert outcome.error == ""
    assert CAMPAIGN.flaws[name].is_caught_by(outcome.rules), outcome.rules


@pytest.mark.parametrize("name", ["overtaken", "short"])
def test_what_is_broken_is_whole_without_its_flaw(name: str, tmp_path: Path) -> None:
    outcome = CAMPAIGN.run(script(name), tmp_path / "run", print, broken=WHOLE)
    assert (outcome.error, list(outcome.objections)) == ("", [])

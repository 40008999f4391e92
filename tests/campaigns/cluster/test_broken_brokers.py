"""Brokers that leave out a rule are caught by a whole run: real processes, real faults, the judge.

Two of them, whose scripts are short; all are `python -m tests.campaigns cluster --broken all`.
"""

import shutil
from pathlib import Path

import pytest

from tests.campaigns.cluster.campaign import CAMPAIGNS

pytestmark = pytest.mark.long


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name", [pytest.param("too-few-in-sync", marks=pytest.mark.long), "no-truncation"]
)
def test_a_broken_broker_is_caught(name: str, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("faults cannot be injected: no C compiler (cc) is installed")
    campaign = CAMPAIGNS["cluster"]
    outcomes = []
    for number in range(3):  # on a machine that is very busy it may not come to the fault
        directory = tmp_path / f"run-{number}"
        outcome = campaign.run(campaign.flaw_script(name), directory, print, broken=name)
        assert outcome.error == ""
        if campaign.flaws[name].is_caught_by(outcome.rules):
            return
        outcomes.append(outcome)
    pytest.fail(f"not caught: {outcomes}")

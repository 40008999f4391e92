"""Groups on a real cluster in trouble, by a short script; a broken coordinator that is caught."""

from pathlib import Path
from typing import Final

import pytest

from tests.campaigns.groups.campaign import CAMPAIGNS

SHORT: Final = """
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
CAMPAIGN: Final = CAMPAIGNS["groups"]

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(900)]


def test_groups_in_trouble(tmp_path: Path) -> None:
    outcome = CAMPAIGN.run(CAMPAIGN.parse(SHORT), tmp_path / "run", print)
    assert (outcome.error, list(outcome.objections)) == ("", [])
    assert outcome.counts["commits acknowledged"]


def test_a_broken_coordinator_is_caught(tmp_path: Path) -> None:
    name = "old-generations"
    outcome = CAMPAIGN.run(CAMPAIGN.flaw_script(name), tmp_path / "run", print, broken=name)
    assert outcome.error == ""
    assert CAMPAIGN.flaws[name].is_caught_by(outcome.rules), outcome.rules

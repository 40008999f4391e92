"""The scripts that were written by hand, side by side: attacks on the topic, on the ledger, and by
the broker. Each that took effect is named, and no line is lost, altered or double under a complete
verdict."""

from argparse import Namespace
from pathlib import Path

import pytest

from tests.campaigns.attackers.campaign import AttackersCampaign
from tests.campaigns.attackers.judging import KINDS

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(900)]


def test_attacks_are_named_and_no_verdict_is_falsely_green(tmp_path: Path) -> None:
    campaign = AttackersCampaign()
    scripts = [campaign.parse(path.read_text()) for path in campaign.kept_scripts()]
    options = Namespace(kept=tmp_path, side_by_side=len(scripts))
    with campaign.runner(options, lambda words: None) as run:
        outcomes = run(scripts)
    assert [outcome.error for outcome in outcomes] == [""] * len(scripts)
    wrong = [str(objection) for outcome in outcomes for objection in outcome.objections]
    assert not wrong, "\n".join(wrong)
    played = {action.verb for script in scripts for action in script.actions} & set(KINDS)
    rows = {line.split()[0]: line.split() for line in campaign.totals()}
    for verb in played:
        _, runs, effective, named, *_ = rows[verb]
        assert int(runs) == int(effective) == int(named) > 0, verb

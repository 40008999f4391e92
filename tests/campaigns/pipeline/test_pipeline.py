"""Minutes of the pipeline, on a cluster and between datacenters, and of a soak: every line arrives
and is counted, whoever fails; one that is lost is named; nothing is left behind."""

from pathlib import Path
from typing import Final

import pytest

from tests.campaigns.pipeline.campaign import CAMPAIGNS, SAMPLES
from tests.campaigns.pipeline.flatness import Kind
from tests.campaigns.pipeline.sampling import read

CLUSTER: Final = """
site cluster seconds=0 load-every=0
kill broker-test-1
kill agent-web-1
pause 8
mend
freeze broker-test-2
freeze-writer test
pause 8
mend
whole
stop broker-test-3
pause 5
mend
kill broker-test-2
mend
"""
MIRRORED: Final = """
site mirrored seconds=0 load-every=0
kill broker-offline-1
kill audit
pause 4
mend
kill mirror-dc1-1
kill agent-web-1
pause 2
mend
whole
kill broker-dc2-1
cut mirror-dc2-1
pause 6
mend
stop broker-dc1-2
pause 1
mend
"""

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("text", [CLUSTER, MIRRORED], ids=["cluster", "mirrored"])
def test_every_line_arrives_whoever_fails(text: str, tmp_path: Path) -> None:
    campaign = CAMPAIGNS["pipeline"]
    outcome = campaign.run(campaign.parse(text), tmp_path / "run", print)
    assert (outcome.error, outcome.objections) == ("", [])
    # Something was at stake: lines were written, leaders changed, somebody else wrote schemas.
    counts = outcome.counts
    assert counts["rows"] == counts["lines written"] > 0
    if text is CLUSTER:
        assert counts["changes of leaders"] >= 3
        assert counts["writers frozen"] == 1
        assert counts["registrations"] > 0
    else:
        assert counts["lost lines named"] == 1
        assert "were not copied from dc1/visits" in outcome.figures[-1]


def test_a_soak_of_minutes_samples_everything_and_is_judged_again(tmp_path: Path) -> None:
    """Nothing can be said of growth by then."""
    campaign = CAMPAIGNS["soak"]
    script = campaign.parse(CLUSTER).with_actions([])
    text = str(script).replace("seconds=0", "seconds=120").replace("load-every=0", "load-every=60")
    script = campaign.parse(text + "pause 60\nkill broker-test-1\npause 9\nmend\npause 99\n")
    outcome = campaign.run(script, tmp_path / "run", print)
    assert (outcome.error, outcome.objections) == ("", [])
    kept = {each.name for each in (tmp_path / "run").iterdir()}
    assert kept == {"run.script", SAMPLES, "run.json", "verdict.md", "programs"}
    series = read(tmp_path / "run" / SAMPLES)
    assert {each.kind for each in series} == set(Kind)
    assert {each.name for each in series if not all(one.value for one in each.points)} <= {
        # Nothing was forgotten, loaded or watched when it began.
        *(each.name for each in series if each.kind in {Kind.STATE, Kind.LOGS}),
        "machine load",
    }
    for program in ("zookeeper", "broker-1", "broker-3", "registry-2", "audit", "web-2"):
        assert any(each.name == f"{program} memory" and len(each.points) > 10 for each in series)
    assert campaign.judge_again(tmp_path / "run") == []

"""A minute of two datacenters and an offline cluster: all lines arrive, and one that is lost on the
way is named. `make mirror-pipeline` goes on from there.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.mirror_pipeline.choosing import Blow, Trouble, Verb, Victim, Who
from tests.mirror_pipeline.run import run

TROUBLES: Final = (
    Trouble(
        (Blow(Verb.KILL, Victim(Who.BROKER, "offline", 1)), Blow(Verb.KILL, Victim(Who.AUDIT))),
        seconds=4,
        then_whole=False,
    ),
    Trouble(
        (
            Blow(Verb.KILL, Victim(Who.MIRROR, "dc1", 1)),
            Blow(Verb.KILL, Victim(Who.AGENT, "dc1", 1)),
        ),
        seconds=2,
    ),
    Trouble(
        (
            Blow(Verb.KILL, Victim(Who.BROKER, "dc2", 1)),
            Blow(Verb.CUT, Victim(Who.MIRROR, "dc2", 1)),
        ),
        seconds=6,
        then_whole=False,
    ),
    Trouble((Blow(Verb.STOP, Victim(Who.BROKER, "dc1", 2)),), seconds=1),
)

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1800)]


def test_all_lines_of_two_datacenters_arrive_and_a_lost_one_is_named(tmp_path: Path) -> None:
    outcome = run(tmp_path / "topology", TROUBLES, say=print)
    assert outcome.objections == ()
    assert outcome.troubles == TROUBLES
    # Something was at stake: every host wrote, and every one of its lines is a row.
    assert sorted(host for each in outcome.datacenters for host in each.written) == [
        *("web-1", "web-2", "web-3")
    ]
    for each in outcome.datacenters:
        assert min(each.written.values()) > 0
        assert each.landed == each.written
    assert "were not copied from dc1/visits" in outcome.named

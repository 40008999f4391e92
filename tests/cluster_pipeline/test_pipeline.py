"""A minute of the pipeline on a cluster: every line arrives and is counted, whoever leads.

Each broker goes once: killed while an agent is killed beside it, frozen beyond its session beside
the registry that writes, stopped. `make pipeline` goes on from there.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.cluster_pipeline.choosing import Beside, Then, Trouble, Verb
from tests.cluster_pipeline.run import run

TROUBLES: Final = (
    Trouble(Verb.KILL, 1, Then.ENOUGH, Beside.AGENT),
    Trouble(Verb.FREEZE, 2, Then.WHOLE, Beside.WRITER),
    Trouble(Verb.STOP, 3, Then.ENOUGH),
    Trouble(Verb.KILL, 2, at_once=True),
)

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1800)]


def test_brokers_go_in_turn_and_every_line_arrives(tmp_path: Path) -> None:
    outcome = run(tmp_path / "pipeline", TROUBLES, say=print)
    assert outcome.objections == ()
    assert outcome.troubles == TROUBLES
    # Something was at stake: lines were written, leaders changed, somebody else wrote schemas.
    assert outcome.lines > 0
    assert outcome.leader_changes >= len(TROUBLES) - 1
    assert outcome.writers_frozen == 1
    assert outcome.registrations > 0

"""A minute of the matrix: three restarts, one for each signal, beside each style of rotation at
each moment. Every topic is complete, and has each line once.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from harness.systemd_process import why_no_systemd
from tests.restarts.judging import Outcome
from tests.restarts.plans import pairs_of, restart_plan
from tests.restarts.playing import play
from tests.restarts.site import AGENTS, Site

REPOSITORY: Final = Path(__file__).resolve().parents[2]
# By seed, the topics that have many files: those of all three are open at once.
MANY: Final[dict[int, Sequence[int]]] = {900: (300,), 901: (40,), 902: ()}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("environment", ["up", pytest.param("systemd", marks=pytest.mark.long)])
def test_every_topic_is_right(environment: str, tmp_path: Path) -> None:
    if environment == "systemd" and (why := why_no_systemd()):
        pytest.skip(f"systemd cannot be had: {why}")
    plans = [
        restart_plan(seed, tmp_path / "logs", pairs=pairs_of(part, len(MANY)), files=files)
        for part, (seed, files) in enumerate(MANY.items())
    ]
    with ExitStack() as ends:
        site = ends.enter_context(Site(tmp_path, REPOSITORY))
        agent = ends.enter_context(AGENTS[environment](site))
        played = play(site, agent, plans)
    wrong = [
        f"{each.signal}, {judgement.topic.style}, {judgement.topic.moment}: {judgement.outcome}: "
        + "; ".join(judgement.words)
        for each in played
        for judgement in each.judgements
        if judgement.outcome is not Outcome.RIGHT
    ]
    assert not wrong, "\n".join(wrong)

"""Restarts, one for each signal, beside each style of rotation: every topic is complete, and has
each line once."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from harness.hosts.systemd_process import why_no_systemd
from tests.campaigns.command import REPOSITORY
from tests.campaigns.restarts.campaign import play
from tests.campaigns.restarts.script import pairs_of, script_of
from tests.campaigns.restarts.site import AGENTS, Site

pytestmark = pytest.mark.long

# By seed, the topics that have many files: those of all three are open at once.
MANY: Final[dict[int, Sequence[int]]] = {900: (300,), 901: (40,), 902: ()}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("environment", ["up", pytest.param("systemd", marks=pytest.mark.long)])
def test_every_topic_is_right(environment: str, tmp_path: Path) -> None:
    if environment == "systemd" and (why := why_no_systemd()):
        pytest.skip(f"systemd cannot be had: {why}")
    scripts = [
        script_of(seed, environment, pairs=pairs_of(part, len(MANY)), files=files)
        for part, (seed, files) in enumerate(MANY.items())
    ]
    with ExitStack() as ends:
        site = ends.enter_context(Site(tmp_path, REPOSITORY))
        agent = ends.enter_context(AGENTS[environment](site))
        outcomes = play(site, agent, scripts)
    wrong = [str(objection) for each in outcomes for objection in each.objections]
    assert not wrong, "\n".join(wrong)

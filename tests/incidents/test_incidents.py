"""An incident as `make incidents` plays it: what is taken tells all; its cure works as typed."""

from pathlib import Path

import pytest

from tests.incidents.incidents import INCIDENTS
from tests.incidents.page import section
from tests.incidents.playing import play

pytestmark = pytest.mark.long


def test_an_agent_is_killed_and_a_file_deleted(tmp_path: Path) -> None:
    taken = play("agent-killed", tmp_path)
    for shown in (taken.status.output, taken.report.output, taken.alert):
        assert all(word in shown for word in ("shop", "web-1", "penstock audit accept"))
    assert taken.written - taken.landed == taken.lost == 300
    assert [line[0] for line in taken.last] == ["✓", "✓"]
    assert (tmp_path / "agent-killed.png").stat().st_size < 100_000
    assert taken.cure[0].command in "\n".join(section(taken))
    assert len(INCIDENTS) == 12

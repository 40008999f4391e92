"""docs/agent*.md against the code: formats and metrics.

Keys are held by tests/penstock/config.
"""

import re
from pathlib import Path

from agent.configuration.inputs import Format
from agent.monitoring.metrics import families
from agent.monitoring.status import AgentPhase, Status
from ground.http.exposition import door_families

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = "\n".join(page.read_text() for page in sorted((ROOT / "docs").glob("agent*.md")))


def test_every_format_is_explained() -> None:
    section = PAGE.partition("### Formats")[2].partition("\n##")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    assert {each.value for each in Format} == set(re.findall(r"`(\w+)`", " ".join(cells)))


def test_every_metric_is_explained() -> None:
    named = set(re.findall(r"`(penstock_agent_\w+)`", PAGE))
    shown = {
        f"{each.name}_total" if each.type == "counter" else each.name
        for each in (
            *families(Status(phase=AgentPhase.RUNNING, version="1")),
            *door_families("penstock_agent_", {}, is_open=False),
        )
    }
    shown = {f"{name}_info" if name == "penstock_agent" else name for name in shown}
    assert shown == named

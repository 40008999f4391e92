"""What the units promise, read from their files. A real systemd runs one in tests/system/agent."""

import re
from pathlib import Path

import pytest

from agent.config import AgentLimits
from tests.docs.pages import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
AGENT = ROOT / "deploy" / "systemd" / "penstock-agent.service"


def settings(unit: Path) -> list[tuple[str, str]]:
    lines = unit.read_text(encoding="utf-8").splitlines()
    return [(name, value) for name, _, value in (line.partition("=") for line in lines) if value]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_no_program_waits_for_another_one(unit: Path) -> None:
    waits = {"Requires", "Requisite", "BindsTo", "PartOf", "Wants", "After"}
    named = [value for name, value in settings(unit) if name in waits]
    assert not [value for value in named if "penstock" in value or "kafka" in value]


def test_the_agent_waits_for_nobody_and_is_back_at_once() -> None:
    found = dict(settings(AGENT))
    assert not {"Requires", "Wants", "After"} & found.keys()
    assert (found["Restart"], found["RestartSec"]) == ("always", "100ms")
    assert found["StartLimitIntervalSec"] == "0"


def test_the_agent_is_told_how_many_files_are_kept_and_may_have_all_that_it_opens() -> None:
    found = settings(AGENT)
    (most,) = [int(value) for name, value in found if name == "FileDescriptorStoreMax"]
    told = [value for name, value in found if name == "Environment" and "FDSTORE=" in value]
    assert told == [f"FDSTORE={most}"]
    assert most > AgentLimits().open_files
    (opened,) = [int(value) for name, value in found if name == "LimitNOFILE"]
    assert opened > 2 * most
    text = AGENT.read_text(encoding="utf-8")
    (largest,) = re.findall(r"at most (\d+)", text)
    assert most <= int(largest)

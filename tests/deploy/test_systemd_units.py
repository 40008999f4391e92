"""What the units promise, read from their files. A real systemd runs one in tests/system/agent."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.configuration.config import AgentLimits
from broker.configs.config import BrokerLimits
from tests.docs.command_lines import misunderstood
from tests.docs.pages import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
AGENT = ROOT / "deploy" / "systemd" / "penstock-agent.service"
PAGES = {
    "penstock-agent": "agent",
    "penstock-audit": "audit",
    "penstock-broker": "broker",
    "penstock-load": "loader",
    "penstock-mirror": "mirror",
    "penstock-registry": "registry",
    "penstock-zookeeper": "broker",
}

ALWAYS_BACK = ("agent", "broker", "registry", "zookeeper")
MOST_EXPOSED = 2.5


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_runs_its_command_as_a_user_of_its_own(unit: Path) -> None:
    found = dict(settings(unit))
    program, *arguments = shlex.split(found["ExecStart"])
    assert (Path(program).name, arguments[0]) == ("penstock", unit.stem.removeprefix("penstock-"))
    assert misunderstood(arguments) is None
    assert found["User"] == unit.stem
    assert found.get("RestartPreventExitStatus") == ("2" if "Restart" in found else None)


def settings(unit: Path) -> list[tuple[str, str]]:
    lines = unit.read_text(encoding="utf-8").splitlines()
    return [(name, value) for name, _, value in (line.partition("=") for line in lines) if value]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_no_program_waits_for_another_one(unit: Path) -> None:
    waits = {"Requires", "Requisite", "BindsTo", "PartOf", "Wants", "After"}
    named = [value for name, value in settings(unit) if name in waits]
    assert not [value for value in named if "penstock" in value or "kafka" in value]


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


@pytest.mark.parametrize("name", [f"penstock-{each}" for each in ALWAYS_BACK])
def test_servers_are_always_back_and_have_room(name: str) -> None:
    found = dict(settings(UNITS[0].with_name(f"{name}.service")))
    assert (found["Restart"], found["StartLimitIntervalSec"]) == ("always", "0")
    assert ("PrivateTmp" in found) is (name != "penstock-agent")  # whose logs may be there
    wanted = {"penstock-broker": BrokerLimits().connections * 4 // 3}
    assert int(found["LimitNOFILE"]) > wanted.get(name, 4_096)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_may_do_little_else_than_it_must(unit: Path) -> None:
    exposure = exposure_of(unit)
    assert exposure < MOST_EXPOSED
    page = (ROOT / "docs" / f"{PAGES[unit.stem]}.md").read_text(encoding="utf-8")
    assert f"exposure {exposure:.1f}" in page, f"docs/{PAGES[unit.stem]}.md: it is {exposure:.1f}"


def exposure_of(unit: Path) -> float:
    """From 0 to 10, as systemd sees it."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not there: apt install systemd")
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "--offline" in judged.stderr:
        pytest.skip("systemd-analyze is older than 250, and judges no files")
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", judged.stdout)
    assert found, judged.stderr
    return float(found[1])

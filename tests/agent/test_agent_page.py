"""docs/agent.md against the code: every key, every metric, the unit file's command."""

import re
from pathlib import Path

import msgspec
import pytest

from agent.config import AgentConfig
from agent.config_inputs import Format, Input
from agent.config_lines import Filter, Multiline, Redaction, Time
from agent.http.metrics import families
from agent.status import Phase, Status

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "agent.md").read_text()
UNIT = (ROOT / "deploy" / "systemd" / "penstock-agent.service").read_text()


def keys(kind: type[msgspec.Struct], prefix: str = "") -> list[str]:
    """As they are written in `--set`."""
    found = []
    for each in msgspec.structs.fields(kind):
        if isinstance(each.type, type) and issubclass(each.type, msgspec.Struct):
            found += keys(each.type, f"{prefix}{each.encode_name}.")
        else:
            found.append(f"{prefix}{each.encode_name}")
    return found


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [
        (AgentConfig, ""),
        (Time, "time."),
        (Multiline, "multiline."),
        (Filter, ""),
        (Redaction, ""),
    ],
)
def test_every_key_is_explained(kind: type[msgspec.Struct], prefix: str) -> None:
    explained = set(re.findall(r"`([a-z_.]+)`", PAGE))
    assert set(keys(kind, prefix)) - explained == set()


def test_every_key_of_an_input_is_explained() -> None:
    section = PAGE.partition("## Inputs")[2].partition("### Formats")[0]
    explained = set(re.findall(r"`([a-z_]+)[.`]", section)) | set(
        re.findall(r"\*\*`([a-z]+)`\*\*", section)
    )
    assert set(keys(Input)) - explained == set()


def test_defaults_are_those_of_the_code() -> None:
    """Numbers that stand alone in the column of defaults."""
    config = AgentConfig(inputs=(Input(paths=("/x",), topic="x"),))
    for key, shown in re.findall(r"^\| `([a-z_.]+)` \| ([0-9.,]+) \|", PAGE, re.MULTILINE):
        value: object = config
        if key.startswith(("time.", "multiline.")):
            continue
        for part in key.split("."):
            value = getattr(value if hasattr(value, part) else config.inputs[0], part)
        assert float(shown.replace(",", "")) == value, key


def test_every_format_is_explained() -> None:
    section = PAGE.partition("### Formats")[2].partition("\n##")[0]
    assert {each.value for each in Format} == set(
        re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    )


def test_every_metric_is_explained() -> None:
    named = set(re.findall(r"`(penstock_agent_\w+)`", PAGE))
    shown = {
        f"{each.name}_total" if each.type == "counter" else each.name
        for each in families(Status(phase=Phase.RUNNING, version="1"))
    }
    shown = {f"{name}_info" if name == "penstock_agent" else name for name in shown}
    assert shown == named


def test_the_unit_runs_the_command_as_systemd_wants_it() -> None:
    settings = dict(re.findall(r"^(\w+)=(.*)$", UNIT, re.MULTILINE))
    assert settings["Type"] == "notify"
    assert settings["ExecStart"].endswith("/penstock agent --config /etc/penstock/agent.yaml")
    assert settings["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert settings["User"] not in {"", "root"}
    assert int(settings["WatchdogSec"]) > 0
    assert settings["RestartPreventExitStatus"] == "2"

"""Alerts, groups and receivers, made up for tests of what is sent."""

from collections.abc import Sequence
from typing import Any

from audit.alerting.conditions import Condition, key_of
from audit.alerting.notices import Group, Notice, groups_of
from audit.alerting.receivers import Situation
from audit.cures.program_commands import ProgramCommands
from audit.programs import Program, ProgramKind
from audit.store.judged_hours import HOUR
from audit.store.rows import Alert
from ledger.health import Health

SEVEN = 1_795_158_000_000  # 2026-11-20, 07:00 UTC
LINKS = {"page": "https://audit.example.org", "runbook": "https://audit.example.org/runbook"}
UNITS = ProgramCommands()
NOW = 1_000_000
HOSTILE = 'a"<!channel>&\n\r\x1b[31m`*\ud800{{7*7}}'


def missing(topic: str = "clicks", hours: Sequence[int] = (0,)) -> list[Alert]:
    return [
        Alert("missing", "dc1", topic, "", f"{topic} lacks", SEVEN, hour=SEVEN + each * HOUR)
        for each in hours
    ]


def silent(*hosts: str) -> list[Alert]:
    return [Alert("silent", "dc1", "", each, f"{each} is silent", SEVEN) for each in hosts]


def program(kind: str, heard: int = NOW, name: str = "p", **health: Any) -> Program:
    statement = Health(**{"started": 1, "interval_millis": 60_000} | health)
    cluster = "" if kind == "audit" else "dc1"
    of: dict[str, Any] = {"kind": ProgramKind(kind), "cluster": cluster, "host": "a1", "name": name}
    return Program(**of, heard=heard, health=statement)


def notice(alerts: list[Alert], commands: ProgramCommands = UNITS, **condition: Any) -> Notice:
    known = {key_of(each): Condition(each.words, **condition) for each in alerts}
    (group,) = groups_of(alerts, known, commands, **LINKS).values()
    return group.notice


def situation(*alerts: Alert, muted: bool = False, **more: Any) -> Situation:
    groups = groups_of(alerts, {}, UNITS, **LINKS)
    return Situation(
        {name: Group(each.notice, each.members, muted) for name, each in groups.items()}, **more
    )

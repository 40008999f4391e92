"""Filters over many agents. Pure."""

from __future__ import annotations

import re
import zlib

from ansible.errors import AnsibleFilterError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MOST_PERCENT = 100


def secret_files(secrets: dict, directory: str, owner: str, group: str) -> list[dict]:
    """Returns the files for {name: text}, readable by the program's group."""
    for name in secrets:
        if not _NAME.fullmatch(str(name)):
            raise AnsibleFilterError(f"invalid file name {name!r}: use letters, digits, _, . and -")
    attributes = {"owner": owner, "group": group, "mode": "0640"}
    return [
        {"path": f"{directory}/{name}", "content": f"{text}\n", **attributes}
        for name, text in secrets.items()
    ]


def expected_hosts(hosts: list[str], hostvars: dict, *, topics: bool = False) -> list[dict]:
    """Returns the audit's inventory: the agents' host names as in events and, with `topics`, their
    topics."""
    rows = []
    for host in hosts:
        variables = hostvars[host]
        row: dict = {"host": str(variables.get("penstock_agent_host") or host)}
        shipped_topics = {entry["topic"] for entry in variables.get("penstock_agent_inputs") or []}
        if topics and shipped_topics:
            row["topics"] = sorted(shipped_topics)
        rows.append(row)
    return sorted(rows, key=lambda row: row["host"])


def is_among(name: str, percent: float | str) -> bool:
    """Whether a host belongs to a sample of `percent` of all hosts. The hash of its name decides,
    so a larger sample contains every smaller one."""
    share = float(percent)
    if not 0 <= share <= _MOST_PERCENT:
        raise AnsibleFilterError(f"{percent} is not a percentage")
    return zlib.crc32(str(name).encode()) < share / _MOST_PERCENT * 2**32


class FilterModule:
    def filters(self) -> dict:
        return {
            "expected_hosts": expected_hosts,
            "is_among": is_among,
            "secret_files": secret_files,
        }

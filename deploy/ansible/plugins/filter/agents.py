"""What roles ask about many agents: values in, values out."""

from __future__ import annotations

import re
import zlib

from ansible.errors import AnsibleFilterError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MOST_PERCENT = 100


def secret_files(secrets: dict, directory: str, owner: str, group: str) -> list[dict]:
    """{name: text} as files that a program's group may read."""
    for name in secrets:
        if not _NAME.fullmatch(str(name)):
            raise AnsibleFilterError(f"invalid file name {name!r}: use letters, digits, _, . and -")
    about = {"owner": owner, "group": group, "mode": "0640"}
    return [
        {"path": f"{directory}/{name}", "content": f"{text}\n", **about}
        for name, text in secrets.items()
    ]


def expected_hosts(hosts: list[str], hostvars: dict, *, topics: bool = False) -> list[dict]:
    """The audit's inventory: each agent by the name in its events, and if wanted what it ships."""
    found = []
    for host in hosts:
        known = hostvars[host]
        row: dict = {"host": str(known.get("penstock_agent_host") or host)}
        shipped = {each["topic"] for each in known.get("penstock_agent_inputs") or []}
        if topics and shipped:
            row["topics"] = sorted(shipped)
        found.append(row)
    return sorted(found, key=lambda row: row["host"])


def is_among(name: str, percent: float | str) -> bool:
    """Whether a host is among the first so many of a hundred. Its name decides: a greater share
    has all of a smaller one."""
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

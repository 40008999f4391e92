"""Filters over the inventory and the release folder. Pure, except for `joined_files`."""

from __future__ import annotations

import re
from pathlib import Path

_RELEASE = re.compile(
    r"penstock-(?:wheelhouse-(?P<w>.+)-py[a-z0-9]+|agent-(?P<a>.+))-linux-[a-z0-9_]+\.tar(?:\.gz)?"
)


def releases(files: list[str]) -> list[str]:
    """The versions of the releases whose files a release folder contains, sorted."""
    matches = (_RELEASE.fullmatch(str(file).rpartition("/")[2]) for file in files)
    return sorted({match["w"] or match["a"] for match in matches if match})


def address_of(host: dict) -> str:
    """The address at which other hosts reach a host, from its variables."""
    address = host.get("penstock_address") or host.get("ansible_host")
    return str(address or host.get("inventory_hostname"))


def host_and_port(host: str, port: int | str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def addresses(
    hosts: list[dict], port: int | str, instances: str = "", key: str = "port"
) -> list[str]:
    """`host:port` of all hosts, in order. A host with several instances of a program, listed in the
    variable `instances`, has one entry for each instance, whose port is at `key`."""
    pairs = []
    for host in hosts:
        for instance in host.get(instances) or [{}]:
            pairs.append(host_and_port(address_of(host), instance.get(key, port)))
    return pairs


def zookeeper_servers(hosts: list[dict], quorum: int | str, election: int | str) -> list[dict]:
    """All servers of an ensemble, sorted by id. A server without an id gets 0, which is invalid."""
    servers = [
        {
            "id": int(host.get("penstock_zookeeper_id") or 0),
            "host": address_of(host),
            "quorum_port": int(host.get("penstock_zookeeper_quorum_port") or quorum),
            "election_port": int(host.get("penstock_zookeeper_election_port") or election),
        }
        for host in hosts
    ]
    return sorted(servers, key=lambda server: server["id"])


def unit_of_instance(text: str, program: str) -> str:
    """A program's unit as a template unit, `PROGRAM@NAME`: every instance has its own configuration
    and data."""
    lines = []
    for line in text.splitlines():
        replaced = line.replace(f"/{program}.yaml", f"/{program}-%i.yaml")
        lines.append(re.sub(rf"(?<=penstock/){re.escape(program)}$", f"{program}-%i", replaced))
    return "\n".join(lines) + "\n"


def joined_files(folders: list[str], name: str) -> str:
    """The concatenated contents of the files with this name in these folders, where they exist."""
    files = [Path(folder) / name for folder in folders]
    return "".join(file.read_text("ascii").strip() + "\n" for file in files if file.exists())


_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,9})?")


def plain_numbers(document: object) -> object:
    """Turns strings that are numbers back into numbers: templates make strings of them. A program
    accepts `1` for a string setting, but not `"1"` for a number."""
    if isinstance(document, dict):
        return {str(key): plain_numbers(value) for key, value in document.items()}
    if isinstance(document, (list, tuple)):
        return [plain_numbers(element) for element in document]
    if isinstance(document, str) and _NUMBER.fullmatch(document):
        return float(document) if "." in document else int(document)
    return document


# The extra that each group's hosts install. An agent's host needs none unless it is a server, too.
_EXTRAS = {
    "penstock_zookeeper": "broker",
    "penstock_broker": "broker",
    "penstock_registry": "registry",
    "penstock_audit": "audit",
    "penstock_mirror": "mirror",
    "penstock_loader": "loader",
}


def extras_of_groups(groups: list[str]) -> list[str]:
    """The extras of the release that a host in these groups installs."""
    extras = {_EXTRAS[group] for group in groups if group in _EXTRAS}
    if extras and "penstock_agent" in groups:
        extras.add("agent")
    return sorted(extras)


class FilterModule:
    def filters(self) -> dict:
        return {
            "addresses": addresses,
            "extras_of_groups": extras_of_groups,
            "joined_files": joined_files,
            "plain_numbers": plain_numbers,
            "releases": releases,
            "unit_of_instance": unit_of_instance,
            "zookeeper_servers": zookeeper_servers,
        }

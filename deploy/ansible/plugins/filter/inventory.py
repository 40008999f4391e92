"""What roles ask of the inventory and of the folder with releases: values in, values out."""

from __future__ import annotations

import re
from pathlib import Path

_RELEASE = re.compile(
    r"penstock-(?:wheelhouse-(?P<w>.+)-py[a-z0-9]+|agent-(?P<a>.+))-linux-[a-z0-9_]+\.tar(?:\.gz)?"
)


def releases(files: list[str]) -> list[str]:
    """The versions that files of a release folder are of, each once, in order."""
    found = (_RELEASE.fullmatch(str(file).rpartition("/")[2]) for file in files)
    return sorted({each["w"] or each["a"] for each in found if each})


def address_of(host: dict) -> str:
    """As which others reach a host, of its variables."""
    named = host.get("penstock_address") or host.get("ansible_host")
    return str(named or host.get("inventory_hostname"))


def host_and_port(host: str, port: int | str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def addresses(
    hosts: list[dict], port: int | str, instances: str = "", key: str = "port"
) -> list[str]:
    """`host:port` of each, in order; where a host has several of a program, of each of those, by
    this key."""
    found = []
    for host in hosts:
        for each in host.get(instances) or [{}]:
            found.append(host_and_port(address_of(host), each.get(key, port)))
    return found


def zookeeper_servers(hosts: list[dict], quorum: int | str, election: int | str) -> list[dict]:
    """All servers of an ensemble, by their numbers. One without a number is one too many."""
    found = [
        {
            "id": int(host.get("penstock_zookeeper_id") or 0),
            "host": address_of(host),
            "quorum_port": int(host.get("penstock_zookeeper_quorum_port") or quorum),
            "election_port": int(host.get("penstock_zookeeper_election_port") or election),
        }
        for host in hosts
    ]
    return sorted(found, key=lambda each: each["id"])


def unit_of_instance(text: str, program: str) -> str:
    """The unit of a program as one for several, `PROGRAM@NAME`: each has a configuration and data
    of its own."""
    lines = []
    for line in text.splitlines():
        named = line.replace(f"/{program}.yaml", f"/{program}-%i.yaml")
        lines.append(re.sub(rf"(?<=penstock/){re.escape(program)}$", f"{program}-%i", named))
    return "\n".join(lines) + "\n"


def joined_files(folders: list[str], name: str) -> str:
    """What is in the files of that name, one behind the other; of folders without one, nothing."""
    files = [Path(folder) / name for folder in folders]
    return "".join(each.read_text("ascii").strip() + "\n" for each in files if each.exists())


_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,9})?")


def plain_numbers(document: object) -> object:
    """The same with numbers that a template has made texts. A program takes `1` where it wants a
    text, but no `"1"` where it wants a number."""
    if isinstance(document, dict):
        return {str(key): plain_numbers(value) for key, value in document.items()}
    if isinstance(document, (list, tuple)):
        return [plain_numbers(each) for each in document]
    if isinstance(document, str) and _NUMBER.fullmatch(document):
        return float(document) if "." in document else int(document)
    return document


# By group, the packages that a program needs; an agent has its own unless the host is a server.
_EXTRAS = {
    "penstock_zookeeper": "broker",
    "penstock_broker": "broker",
    "penstock_registry": "registry",
    "penstock_audit": "audit",
    "penstock_mirror": "mirror",
    "penstock_loader": "loader",
}


def extras_of_groups(groups: list[str]) -> list[str]:
    """The packages of the release that a host in these groups installs."""
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

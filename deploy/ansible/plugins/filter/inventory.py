"""Filters over the inventory, and over folders of the controller."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

_RELEASE = re.compile(
    r"penstock-(?:wheelhouse-(?P<w>.+)-py[a-z0-9]+|agent-(?P<a>.+))-linux-[a-z0-9_]+\.tar(?:\.gz)?"
)


_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


def releases(folder: str) -> list[str]:
    """Returns the versions of the releases in a release folder, sorted."""
    matches = (_RELEASE.fullmatch(file.name) for file in Path(folder).glob("penstock-*"))
    return sorted({match["w"] or match["a"] for match in matches if match})


def release_problem(folder: str, release: str) -> str:
    """Returns why it is unknown which release to install; "" if it is known. `release` is "" if no
    version was chosen and the folder does not have exactly one."""
    versions = releases(folder)
    if release:
        if _VERSION.fullmatch(release):
            return ""
        return (
            f"penstock_release is {release}, and must be a version, such as "
            f"{versions[-1] if versions else '0.1.0'}: penstock_release_dir is for the folder"
        )
    if versions:
        return f"{folder} has several releases: set penstock_release to {' or '.join(versions)}"
    parents = sorted(str(path.parent) for path in Path(folder).glob("*/penstock-*-linux-*.tar*"))
    if parents:
        return (
            f"{folder} has no release, but {parents[0]} has one: set penstock_release_dir to that"
        )
    return (
        f"{folder} on the controller has no release: build one (make release), and copy "
        "dist/release there, or set penstock_release_dir to its folder"
    )


def address_of(host: dict) -> str:
    """Returns the address at which other hosts reach a host, from its variables."""
    address = host.get("penstock_address") or host.get("ansible_host")
    return str(address or host.get("inventory_hostname"))


def host_and_port(host: str, port: int | str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def addresses(
    hosts: list[dict], port: int | str, instances: str = "", key: str = "port"
) -> list[str]:
    """Returns `host:port` of all hosts, in order. A host with several instances of a program, which
    its variable `instances` lists, has one entry for each; the port of an instance is under
    `key`."""
    entries = []
    for host in hosts:
        for instance in host.get(instances) or [{}]:
            entries.append(host_and_port(address_of(host), instance.get(key, port)))
    return entries


def zookeeper_servers(hosts: list[dict], quorum: int | str, election: int | str) -> list[dict]:
    """Returns all servers of an ensemble, sorted by id. A server without an id gets 0, which is
    invalid."""
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
    """Turns a program's unit into a template unit, `PROGRAM@NAME`: every instance has its own
    configuration and data."""
    lines = []
    for line in text.splitlines():
        instance_line = line.replace(f"/{program}.yaml", f"/{program}-%i.yaml")
        lines.append(
            re.sub(rf"(?<=penstock/){re.escape(program)}$", f"{program}-%i", instance_line)
        )
    return "\n".join(lines) + "\n"


def joined_files(folders: list[str], name: str) -> str:
    """Concatenates the files with this name in these folders, where they exist."""
    files = [Path(folder) / name for folder in folders]
    return "".join(file.read_text("ascii").strip() + "\n" for file in files if file.exists())


_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,9})?")


def plain_numbers(document: object) -> object:
    """Turns strings that are numbers back into numbers, since templates turn numbers into strings.
    A program accepts `1` for a string setting, but not `"1"` for a number."""
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
    """Returns the extras of the release that a host in these groups installs."""
    extras = {_EXTRAS[group] for group in groups if group in _EXTRAS}
    if extras and "penstock_agent" in groups:
        extras.add("agent")
    return sorted(extras)


# All groups that the playbooks use. They create those of the second row during a run.
GROUPS = (*_EXTRAS, "penstock_agent", "penstock_agent_canary")
_GROUPS_OF_A_RUN = re.compile(r"penstock_(speaker|gate_stopped_at|zookeeper_of_now_[a-z]+)")
_SIMILAR = 0.85
_DIGITS = re.compile(r"[0-9]{1,10}")
_LAST_BROKER_ID = 2**31 - 1
_LAST_ZOOKEEPER_ID = 255


def inventory_problems(groups: dict, hostvars: dict) -> list[str]:
    """Returns all mistakes in an inventory that would end a run late, or would silently install
    less."""
    zookeepers, brokers = (groups.get(f"penstock_{name}") or [] for name in ("zookeeper", "broker"))
    problems = [problem for group in sorted(groups) for problem in _problems_of_group(group)]
    # Inventories list the controller itself for its variables.
    if hosts := [host for host in groups.get("ungrouped") or [] if host != "localhost"]:
        problems.append(
            f"no group has {', '.join(hosts)}, so nothing would be installed there: add it to "
            "penstock_agent, to another group of the collection, or to a group of your own"
        )
    ids = [(host, _id_of(hostvars[host], "penstock_zookeeper_id")) for host in zookeepers]
    problems += _problems_of_ids("penstock_zookeeper_id", ids, 1, _LAST_ZOOKEEPER_ID)
    if zookeepers and len(zookeepers) % 2 == 0:
        problems.append(
            f"penstock_zookeeper has {len(zookeepers)} hosts: an ensemble has one, three or five, "
            "since one more server does not survive more failures"
        )
    ids = [(host, broker_id) for host in brokers for broker_id in _broker_ids(hostvars[host])]
    problems += _problems_of_ids("penstock_broker_id", ids, 0, _LAST_BROKER_ID)
    return problems


def _problems_of_group(group: str) -> list[str]:
    name = group.lower().replace("-", "_")
    if group in GROUPS or _GROUPS_OF_A_RUN.fullmatch(group):
        return []
    matches = difflib.get_close_matches(name, GROUPS, 1, _SIMILAR)
    if not matches and not name.startswith("penstock_"):
        return []
    hint = (
        f"did you mean {matches[0]}?"
        if matches
        else f"it has {', '.join(GROUPS)}. Give a group of your own another name"
    )
    return [f"the collection has no group {group}, so its hosts would be left out: {hint}"]


def _id_of(host: dict, variable: str) -> str:
    id_value = host.get(variable)
    return "" if id_value is None else str(id_value).strip()


def _broker_ids(host: dict) -> list[str]:
    """The ids of a host's brokers, "" for a missing one."""
    instances = host.get("penstock_broker_instances")
    if not instances:
        return [_id_of(host, "penstock_broker_id")]
    return [_id_of(instance, "id") for instance in instances]


def _problems_of_ids(variable: str, ids: list[tuple[str, str]], first: int, last: int) -> list[str]:
    """Each of several servers needs an id of its own; the default of a single one is 1."""
    problems = []
    hosts_by_id = {}
    hosts_without = [host for host, server_id in ids if not server_id]
    for host, server_id in ids:
        if server_id and not (_DIGITS.fullmatch(server_id) and first <= int(server_id) <= last):
            problems.append(
                f"{variable} of {host} is {server_id[:40]!r}, and must be a number from {first} to "
                f"{last}"
            )
        elif server_id:
            hosts_by_id.setdefault(int(server_id), []).append(host)
    if hosts_without and len(ids) > 1:
        problems.append(
            f"{', '.join(hosts_without)} has no {variable}: set a number from {first} to {last} "
            "that no other host has. It belongs to the data, and must not change"
        )
    for server_id, hosts in sorted(hosts_by_id.items()):
        if len(hosts) > 1:
            problems.append(f"{variable} is {server_id} more than once: {', '.join(hosts)}")
    return problems


class FilterModule:
    def filters(self) -> dict:
        return {
            "address_of": address_of,
            "addresses": addresses,
            "extras_of_groups": extras_of_groups,
            "inventory_problems": inventory_problems,
            "joined_files": joined_files,
            "plain_numbers": plain_numbers,
            "release_problem": release_problem,
            "releases": releases,
            "unit_of_instance": unit_of_instance,
            "zookeeper_servers": zookeeper_servers,
        }

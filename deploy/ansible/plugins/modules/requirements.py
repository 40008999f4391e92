#!/usr/bin/python
"""Checks whether a release can be installed on a host. Changes nothing.

Checks the versions of Python and Java, the packages of the release that are already installed, the
free space for the others, and the names of the other servers. Reports all problems at once.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shutil
import socket

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: requirements
short_description: Check a host's prerequisites before Penstock is installed
description:
  - Changes nothing, and fails only for invalid arguments.
options:
  version: {description: The release to be installed., type: str, required: true}
  root: {description: The folder of releases on the host., type: path, default: /opt/penstock}
  extras:
    description: The programs to be installed from packages.
    type: list
    elements: str
    default: []
  jars: {description: Whether the host runs ZooKeeper., type: bool, default: false}
  bundle: {description: Whether it runs an agent from its bundle., type: bool, default: false}
  python: {description: The interpreter of the packages., type: path, default: /usr/bin/python3}
  java: {description: "The command java; empty if Java is not needed.", type: str, default: ""}
  java_version: {description: The oldest sufficient Java., type: int, default: 11}
  peers:
    description: The addresses at which this host must reach the other servers.
    type: list
    elements: str
    default: []
author: The Penstock authors
"""

EXAMPLES = r"""
- name: Check the prerequisites of a ZooKeeper server
  penstock.pipeline.requirements:
    version: 0.1.0
    extras: [broker]
    jars: true
    java: java
"""

RETURN = r"""
problems:
  description: Problems to solve before the installation, as text.
  returned: always
  type: list
  elements: str
missing:
  description: Programs whose packages are not installed.
  returned: always
  type: list
  elements: str
needs_jars: {description: Whether ZooKeeper's jars are missing., returned: always, type: bool}
needs_bundle: {description: Whether the agent's bundle is missing., returned: always, type: bool}
"""

_MARKER = "release.json"
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_OLDEST_PYTHON = (3, 11)
_JAVA = re.compile(r'version "(?:1\.)?([0-9]+)')
_MEGABYTE = 1_000_000
# Estimates of unpacked sizes. The modules that install compute exact sizes, and check again.
_MEGABYTES_OF = {"loader": 1000, "audit": 350, "all": 1200}
_OTHER_MEGABYTES = 120
_BUNDLE_MEGABYTES = 100


def marker_of(path):
    """Returns the content of a release's marker; {} if the release is not installed."""
    try:
        with open(os.path.join(path, _MARKER), encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def run(module, *command):
    try:
        return module.run_command(list(command), handle_exceptions=False)
    except OSError as error:
        return 127, "", str(error)


def problem_of_python(module):
    python = module.params["python"]
    code = "import sys; print(*sys.version_info[:2])"
    exit_code, output, _error = run(module, python, "-I", "-c", code)
    oldest = ".".join(map(str, _OLDEST_PYTHON))
    if exit_code:
        return f"{python} does not run: install Python {oldest} or later, or set penstock_python"
    version = tuple(map(int, output.split()))
    if version >= _OLDEST_PYTHON:
        return ""
    return (
        f"{python} is Python {version[0]}.{version[1]}, and servers need {oldest} or later: set "
        "penstock_python to a newer one"
    )


def problem_of_java(module):
    java, oldest = module.params["java"], module.params["java_version"]
    hint = (
        "apt install default-jre-headless, or set penstock_zookeeper_java_home or "
        "penstock_loader_java_home"
    )
    rc, out, error = run(module, java, "-version")
    version = _JAVA.search(error + out)
    if rc or not version:
        return f"{java} does not run, and Java {oldest} or later is needed: {hint}"
    if int(version[1]) < oldest:
        return f"{java} is Java {version[1]}, and {oldest} or later is needed: {hint}"
    return ""


def problem_of_room(root, megabytes):
    folder = root
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free_megabytes = shutil.disk_usage(folder).free // _MEGABYTE
    if free_megabytes >= megabytes:
        return ""
    needs = f"the release needs about {megabytes} MB: free some space"
    return f"{folder} has {free_megabytes} MB free, and {needs}"


def problem_of_peer(peer):
    """Returns the problem if another server's name resolves to this host, as after copying that
    server's /etc/hosts; otherwise ""."""
    try:
        addresses = {row[4][0] for row in socket.getaddrinfo(peer, None)}
    except OSError:
        return ""  # for the program to report: a name may be unknown until the network is up
    loopback = sorted(address for address in addresses if ipaddress.ip_address(address).is_loopback)
    if not loopback:
        return ""
    return (
        f"{peer}, the address of another server, is {loopback[0]} here, which is this host itself: "
        "correct /etc/hosts, or set penstock_address of that server"
    )


def main():
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "required": True},
            "root": {"type": "path", "default": "/opt/penstock"},
            "extras": {"type": "list", "elements": "str", "default": []},
            "jars": {"type": "bool", "default": False},
            "bundle": {"type": "bool", "default": False},
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "java": {"type": "str", "default": ""},
            "java_version": {"type": "int", "default": 11},
            "peers": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    params = module.params
    if not _VERSION.fullmatch(params["version"]):
        module.fail_json(msg=f"invalid version {params['version']!r}")
    marker = marker_of(os.path.join(params["root"], "releases", params["version"]))
    is_bundle_alone = marker.get("bundle") and not marker.get("server")
    extras = set(marker.get("extras") or [])
    absent_extras = [] if "all" in extras else sorted(set(params["extras"]) - extras)
    if params["extras"] and is_bundle_alone:
        absent_extras = sorted({*params["extras"], "agent"})  # the bundle's fit only its own Python
    needs_jars = params["jars"] and not marker.get("jars")
    needs_bundle = params["bundle"] and not extras & {"agent", "all"}
    megabytes = _BUNDLE_MEGABYTES if needs_bundle else 0
    if absent_extras:
        megabytes += max(_MEGABYTES_OF.get(extra, _OTHER_MEGABYTES) for extra in absent_extras)
    problems = [
        problem_of_python(module) if params["extras"] else "",
        problem_of_java(module) if params["java"] else "",
        problem_of_room(params["root"], megabytes) if megabytes else "",
        *(problem_of_peer(peer) for peer in params["peers"]),
    ]
    module.exit_json(
        changed=False,
        problems=[problem for problem in problems if problem],
        missing=absent_extras,
        needs_jars=bool(needs_jars),
        needs_bundle=bool(needs_bundle),
    )


if __name__ == "__main__":
    main()

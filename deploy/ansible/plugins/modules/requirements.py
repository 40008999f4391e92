#!/usr/bin/python
"""What a host lacks before a release can be installed on it. Changes nothing.

Looks for a Python and a Java that are new enough, for the packages of the release that are there
already, and for free space if some are not. Reports all that is wrong at once.
"""

from __future__ import annotations

import json
import os
import re
import shutil

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: requirements
short_description: Check what a host must have before Penstock is installed on it
description:
  - Changes nothing, and fails only for wrong arguments.
options:
  version: {description: The release that the host is to run., type: str, required: true}
  root: {description: Where releases are on the host., type: path, default: /opt/penstock}
  extras:
    description: The programs that the host is to run from packages.
    type: list
    elements: str
    default: []
  jars: {description: Whether the host runs ZooKeeper., type: bool, default: false}
  bundle: {description: Whether it runs an agent from its bundle., type: bool, default: false}
  python: {description: The interpreter of the packages., type: path, default: /usr/bin/python3}
  java: {description: "The command java; without it, Java is not needed.", type: str, default: ""}
  java_version: {description: The oldest Java that will do., type: int, default: 11}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: Look at what a host of ZooKeeper lacks
  penstock.pipeline.requirements:
    version: 0.1.0
    extras: [broker]
    jars: true
    java: java
"""

RETURN = r"""
problems:
  description: What must be mended, in words.
  returned: always
  type: list
  elements: str
missing:
  description: Programs whose packages are not there.
  returned: always
  type: list
  elements: str
needs_jars: {description: Whether ZooKeeper's jars are not there., returned: always, type: bool}
needs_bundle: {description: Whether the agent's bundle is not there., returned: always, type: bool}
"""

_MARKER = "release.json"
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_OLDEST_PYTHON = (3, 11)
_JAVA = re.compile(r'version "(?:1\.)?([0-9]+)')
_MEGABYTE = 1_000_000
# About what is unpacked: a module that installs knows it exactly, and looks again.
_MEGABYTES_OF = {"loader": 1000, "audit": 350, "all": 1200}
_OTHER_MEGABYTES = 120
_BUNDLE_MEGABYTES = 100


def known(path):
    """What the release's marker lists; nothing where there is no release."""
    try:
        with open(os.path.join(path, _MARKER), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def run(module, *command):
    try:
        return module.run_command(list(command), handle_exceptions=False)
    except OSError as error:
        return 127, "", str(error)


def problem_of_python(module):
    python = module.params["python"]
    code = "import sys; print(*sys.version_info[:2])"
    rc, out, _error = run(module, python, "-I", "-c", code)
    oldest = ".".join(map(str, _OLDEST_PYTHON))
    if rc:
        return f"{python} does not run: install Python {oldest} or later, or set penstock_python"
    version = tuple(map(int, out.split()))
    if version >= _OLDEST_PYTHON:
        return ""
    return (
        f"{python} is Python {version[0]}.{version[1]}, and servers need {oldest} or later: set "
        "penstock_python to a newer one"
    )


def problem_of_java(module):
    java, oldest = module.params["java"], module.params["java_version"]
    cure = (
        "apt install openjdk-17-jre-headless, or set penstock_zookeeper_java_home or "
        "penstock_loader_java_home"
    )
    rc, out, error = run(module, java, "-version")
    found = _JAVA.search(error + out)
    if rc or not found:
        return f"{java} does not run, and Java {oldest} or later is needed: {cure}"
    if int(found[1]) < oldest:
        return f"{java} is Java {found[1]}, and {oldest} or later is needed: {cure}"
    return ""


def problem_of_room(root, megabytes):
    folder = root
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free // _MEGABYTE
    if free >= megabytes:
        return ""
    return f"{folder} has {free} MB free, and the release needs about {megabytes} MB: make room"


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
        },
        supports_check_mode=True,
    )
    given = module.params
    if not _VERSION.fullmatch(given["version"]):
        module.fail_json(msg=f"invalid version {given['version']!r}")
    marker = known(os.path.join(given["root"], "releases", given["version"]))
    is_bundle_alone = marker.get("bundle") and not marker.get("server")
    has = set(marker.get("extras") or [])
    missing = [] if "all" in has else sorted(set(given["extras"]) - has)
    if given["extras"] and is_bundle_alone:
        missing = sorted({*given["extras"], "agent"})  # for the Python of the host
    needs_jars = given["jars"] and not marker.get("jars")
    needs_bundle = given["bundle"] and not has & {"agent", "all"}
    megabytes = _BUNDLE_MEGABYTES if needs_bundle else 0
    if missing:
        megabytes += max(_MEGABYTES_OF.get(extra, _OTHER_MEGABYTES) for extra in missing)
    problems = [
        problem_of_python(module) if given["extras"] else "",
        problem_of_java(module) if given["java"] else "",
        problem_of_room(given["root"], megabytes) if megabytes else "",
    ]
    module.exit_json(
        changed=False,
        problems=[each for each in problems if each],
        missing=missing,
        needs_jars=bool(needs_jars),
        needs_bundle=bool(needs_bundle),
    )


if __name__ == "__main__":
    main()

#!/usr/bin/python
"""A program as systemd runs it: from which release, and with what.

Whether it must be started again is asked of the process that runs, which has in its environment
what it was started with. So a run of Ansible that was interrupted between a file and a restart is
made up for by the next one, and whoever restarts it by hand has done what was to do.
"""

from __future__ import annotations

import os
import re
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: program
short_description: A program of Penstock as systemd runs it
description:
  - Turns the link to a release, and starts a program that is not running, or with something else.
options:
  unit: {description: Its unit., type: str, required: true}
  release: {description: The release that is current afterwards., type: str, required: true}
  root: {description: Where releases are on the host., type: path, default: /opt/penstock}
  started_with:
    description: What PENSTOCK_STARTED_WITH says in its unit.
    type: str
    required: true
  restart: {description: Start it again in any case., type: bool, default: false}
  timeout: {description: "How long it may take to be ready, in seconds.", type: int, default: 180}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: The broker
  penstock.pipeline.program:
    unit: penstock-broker.service
    release: 0.1.0
    started_with: 0.1.0/0123456789abcdef
"""

VARIABLE = b"PENSTOCK_STARTED_WITH="
_ASKED = ("LoadState", "ActiveState", "SubState", "UnitFileState", "NeedDaemonReload", "MainPID")
_MORE = ("Result", "ExecMainStatus", "NRestarts")
_UNIT = re.compile(r"penstock-[a-z-]+(@[A-Za-z0-9_-]+)?\.service")
_LINES = "25"
_STAYS = 2.0  # seconds that a program without notify runs before it is believed
_WRONG_CONFIGURATION = "2"


class Unit:
    def __init__(self, module):
        self.module = module
        self.name = module.params["unit"]

    def systemctl(self, *arguments, check=True):
        rc, out, error = self.module.run_command(["systemctl", *arguments])
        if rc and check:
            self.fail(f"systemctl {' '.join(arguments)}: {error.strip() or out.strip()}")
        return out

    def asked(self):
        wanted = ",".join(_ASKED + _MORE)
        out = self.systemctl("show", self.name, f"--property={wanted}", check=False)
        return dict(line.split("=", 1) for line in out.splitlines() if "=" in line)

    def runs_with(self, state):
        """What the process was started with; "" if none runs, or it was not told."""
        try:
            with open(f"/proc/{int(state.get('MainPID') or 0)}/environ", "rb") as file:
                pairs = file.read().split(b"\0")
        except OSError:
            return ""
        found = (each[len(VARIABLE) :] for each in pairs if each.startswith(VARIABLE))
        return os.fsdecode(next(found, b""))

    def wait(self, started_with, before):
        """Until it is ready with that, as another process than the one before, and stays."""
        deadline = time.monotonic() + self.module.params["timeout"]
        since = None
        pid = ""
        while True:
            state = self.asked()
            is_up = (
                state.get("ActiveState") == "active"
                and state.get("MainPID") != before
                and self.runs_with(state) == started_with
            )
            if is_up and state["MainPID"] == pid and since is not None:
                if time.monotonic() - since >= _STAYS:
                    return
            elif is_up:
                since, pid = time.monotonic(), state["MainPID"]
            else:
                since, pid = None, ""
            if state.get("ActiveState") == "failed":
                why = f"it failed ({state.get('Result')})"
                if state.get("ExecMainStatus") == _WRONG_CONFIGURATION:
                    why = "its configuration or command is wrong"
                self.fail(f"{self.name} does not start: {why}")
            if time.monotonic() > deadline:
                self.fail(
                    f"{self.name} was not ready after {self.module.params['timeout']} s: it is "
                    f"{state.get('ActiveState')} ({state.get('SubState')}), and was started again "
                    f"{state.get('NRestarts')} times"
                )
            time.sleep(0.2)

    def fail(self, message):
        command = ["journalctl", "--unit", self.name, "--lines", _LINES, "--no-pager"]
        _rc, said, _error = self.module.run_command([*command, "--output", "cat"])
        self.module.fail_json(msg=message, journal=said.splitlines())


def link(path, target):
    """The link by a rename, so that there is one at any moment."""
    new = f"{path}.new"
    if os.path.lexists(new):
        os.unlink(new)
    os.symlink(target, new)
    os.rename(new, path)


def target_of(path):
    return os.readlink(path) if os.path.islink(path) else ""


def main():
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "release": {"type": "str", "required": True},
            "root": {"type": "path", "default": "/opt/penstock"},
            "started_with": {"type": "str", "required": True},
            "restart": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 180},
        },
        supports_check_mode=True,
    )
    given = module.params
    if not _UNIT.fullmatch(given["unit"]):
        module.fail_json(msg=f"{given['unit']} is not a unit of Penstock")
    unit = Unit(module)
    links = {
        os.path.join(given["root"], "current"): f"releases/{given['release']}",
        os.path.join(given["root"], "bin"): "current/bin",
    }
    state = unit.asked()
    before = {
        "release": target_of(os.path.join(given["root"], "current")).rpartition("/")[2],
        "enabled": state.get("UnitFileState") == "enabled",
        "state": state.get("ActiveState", "inactive"),
        "started_with": unit.runs_with(state),
    }
    after = {
        "release": given["release"],
        "enabled": True,
        "state": "active",
        "started_with": given["started_with"],
    }
    turned = {path: to for path, to in links.items() if target_of(path) != to}
    restart = given["restart"] and before["state"] == "active"
    changed = before != after or bool(turned) or restart
    if not module.check_mode:
        for path, to in turned.items():
            link(path, to)
        if state.get("NeedDaemonReload") == "yes" or state.get("LoadState") != "loaded":
            unit.systemctl("daemon-reload")
        if not before["enabled"]:
            unit.systemctl("enable", unit.name)
        other = before["started_with"] != after["started_with"]
        if other or restart or before["state"] != "active":
            # Not waited for here: where something that it needs is not there yet, systemd tries
            # again until it is.
            if before["state"] == "failed":
                unit.systemctl("reset-failed", unit.name)
            unit.systemctl("restart", "--no-block", unit.name)
            unit.wait(given["started_with"], state.get("MainPID"))
    module.exit_json(
        changed=changed,
        restarted=restart or before["started_with"] not in {"", after["started_with"]},
        diff={"before": before, "after": after},
    )


if __name__ == "__main__":
    main()

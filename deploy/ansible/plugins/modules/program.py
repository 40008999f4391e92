#!/usr/bin/python
"""Makes systemd run a program from a release with its current configuration.

The running process' environment has a digest of its release, unit and configuration, which tells
whether a restart is necessary. So a run that was interrupted before a restart is completed by the
next run, and a program that was restarted by hand is not restarted again.
"""

from __future__ import annotations

import os
import re
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: program
short_description: Run a program of Penstock with systemd
description:
  - Points the link C(current) to a release. Starts the program if it is not running, and restarts
    it if its release, unit or configuration has changed.
options:
  unit: {description: The program's unit., type: str, required: true}
  release: {description: The release that becomes current., type: str, required: true}
  root: {description: The folder of releases on the host., type: path, default: /opt/penstock}
  started_with:
    description: The value of PENSTOCK_STARTED_WITH in the unit.
    type: str
    required: true
  restart: {description: Restart the program in any case., type: bool, default: false}
  timeout: {description: "The time limit for readiness, in seconds.", type: int, default: 180}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: Run the broker
  penstock.pipeline.program:
    unit: penstock-broker.service
    release: 0.1.0
    started_with: 0.1.0/0123456789abcdef
"""

VARIABLE = b"PENSTOCK_STARTED_WITH="
_PROPERTIES = (
    *("LoadState", "ActiveState", "SubState", "UnitFileState", "NeedDaemonReload", "MainPID"),
    *("Result", "ExecMainStatus", "NRestarts"),
)
_UNIT = re.compile(r"penstock-[a-z-]+(@[A-Za-z0-9_-]+)?\.service")
_LINES = "25"
_STABLE_SECONDS = 2.0  # a program without notify counts as ready after this time
_INVALID_CONFIGURATION = "2"


class Unit:
    def __init__(self, module):
        self.module = module
        self.name = module.params["unit"]

    def systemctl(self, *arguments, check=True):
        exit_code, output, error = self.module.run_command(["systemctl", *arguments])
        if exit_code and check:
            self.fail(f"systemctl {' '.join(arguments)}: {error.strip() or output.strip()}")
        return output

    def properties(self):
        names = ",".join(_PROPERTIES)
        out = self.systemctl("show", self.name, f"--property={names}", check=False)
        return dict(line.split("=", 1) for line in out.splitlines() if "=" in line)

    def started_with(self, state):
        """Returns PENSTOCK_STARTED_WITH of the running process; "" if there is no process or no
        value."""
        try:
            with open(f"/proc/{int(state.get('MainPID') or 0)}/environ", "rb") as file:
                pairs = file.read().split(b"\0")
        except OSError:
            return ""
        values = (pair[len(VARIABLE) :] for pair in pairs if pair.startswith(VARIABLE))
        return os.fsdecode(next(values, b""))

    def wait(self, started_with, before):
        """Waits until a process other than `before` is active with this value, and remains
        active."""
        deadline = time.monotonic() + self.module.params["timeout"]
        steady_since = None
        pid = ""
        while True:
            state = self.properties()
            is_up = (
                state.get("ActiveState") == "active"
                and state.get("MainPID") != before
                and self.started_with(state) == started_with
            )
            if is_up and state["MainPID"] == pid and steady_since is not None:
                if time.monotonic() - steady_since >= _STABLE_SECONDS:
                    return
            elif is_up:
                steady_since, pid = time.monotonic(), state["MainPID"]
            else:
                steady_since, pid = None, ""
            if state.get("ActiveState") == "failed":
                reason = f"it failed ({state.get('Result')})"
                if state.get("ExecMainStatus") == _INVALID_CONFIGURATION:
                    reason = "its configuration or command line is invalid"
                self.fail(f"{self.name} does not start: {reason}")
            if time.monotonic() > deadline:
                self.fail(
                    f"{self.name} was not ready after {self.module.params['timeout']} s: it is "
                    f"{state.get('ActiveState')} ({state.get('SubState')}), and systemd restarted "
                    f"it {state.get('NRestarts')} times"
                )
            time.sleep(0.2)

    def fail(self, message):
        command = ["journalctl", "--unit", self.name, "--lines", _LINES, "--no-pager"]
        _exit_code, output, _error = self.module.run_command([*command, "--output", "cat"])
        self.module.fail_json(msg=message, journal=output.splitlines())


def set_link(path, target):
    """Replaces a link by renaming a new one over it, so that the link always exists."""
    new_link = f"{path}.new"
    if os.path.lexists(new_link):
        os.unlink(new_link)
    os.symlink(target, new_link)
    os.rename(new_link, path)


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
    params = module.params
    if not _UNIT.fullmatch(params["unit"]):
        module.fail_json(msg=f"{params['unit']} is not a unit of Penstock")
    unit = Unit(module)
    links = {
        os.path.join(params["root"], "current"): f"releases/{params['release']}",
        os.path.join(params["root"], "bin"): "current/bin",
    }
    state = unit.properties()
    before = {
        "release": target_of(os.path.join(params["root"], "current")).rpartition("/")[2],
        "enabled": state.get("UnitFileState") == "enabled",
        "state": state.get("ActiveState", "inactive"),
        "started_with": unit.started_with(state),
    }
    after = {
        "release": params["release"],
        "enabled": True,
        "state": "active",
        "started_with": params["started_with"],
    }
    stale_links = {path: target for path, target in links.items() if target_of(path) != target}
    must_restart = params["restart"] and before["state"] == "active"
    has_changed = before != after or bool(stale_links) or must_restart
    if not module.check_mode:
        for path, target in stale_links.items():
            set_link(path, target)
        if state.get("NeedDaemonReload") == "yes" or state.get("LoadState") != "loaded":
            unit.systemctl("daemon-reload")
        if not before["enabled"]:
            unit.systemctl("enable", unit.name)
        is_outdated = before["started_with"] != after["started_with"]
        if is_outdated or must_restart or before["state"] != "active":
            # --no-block: a program that cannot reach a server yet fails, and systemd retries.
            if before["state"] == "failed":
                unit.systemctl("reset-failed", unit.name)
            unit.systemctl("restart", "--no-block", unit.name)
            unit.wait(params["started_with"], state.get("MainPID"))
    module.exit_json(
        changed=has_changed,
        restarted=must_restart or before["started_with"] not in {"", after["started_with"]},
        diff={"before": before, "after": after},
    )


if __name__ == "__main__":
    main()

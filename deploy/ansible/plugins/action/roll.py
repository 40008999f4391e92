"""Tells the host which run of Ansible this is, and whether a run of this controller that holds the
lock is dead. A run is the process of ansible-playbook, known by its number and start time."""

from __future__ import annotations

import getpass
import os
import socket

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        given = dict(self._task.args)
        run = this_run()
        if given.get("state") == "begun":
            # Only the controller knows whether the holder is alive, so it looks before it takes.
            looked = self._execute_module(
                module_args={"state": "ended", "path": given.get("path", _PATH), "run": {}},
                task_vars=task_vars,
            )
            if looked.get("failed"):
                return looked
            holder = looked.get("before") or {}
            if is_dead(holder, run):
                run["dead"] = [holder["token"]]
        return self._execute_module(module_args={**given, "run": run}, task_vars=task_vars)


_PATH = "/var/lib/penstock/roll/roll.json"


def this_run():
    controller, process = boot_of_this_machine(), os.getppid()
    return {
        "token": f"{controller}/{process}/{started(process)}",
        "owner": f"{getpass.getuser()}@{socket.gethostname()}",
        "controller": controller,
        "dead": [],
    }


def is_dead(holder, run):
    """Whether it is a run of this controller that has ended. Of another one's it is not known."""
    token = str(holder.get("token", ""))
    controller, _, rest = token.partition("/")
    process, _, when = rest.partition("/")
    if not process.isdigit() or controller != run["controller"] or token == run["token"]:
        return False
    return started(int(process)) != when


def boot_of_this_machine():
    """Runs from before a boot have ended."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def started(process):
    """When, in ticks since the boot; "" if there is none."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return ""

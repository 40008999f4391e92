"""Tells the host which run of Ansible it is, and whether a run that was begun here is still there:
the process that has this one as its child, by its number and when it was started."""

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
            # Who has it is asked without taking it, as only the controller knows who is alive.
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
    """A run of this controller that is no more. Of others' nobody here can tell."""
    token = str(holder.get("token", ""))
    controller, _, rest = token.partition("/")
    process, _, when = rest.partition("/")
    if not process.isdigit() or controller != run["controller"] or token == run["token"]:
        return False
    return started(int(process)) != when


def boot_of_this_machine():
    """Since it was booted: what ran before that runs no more, and nobody is told so."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def started(process):
    """When, in ticks since the boot; "" if there is none."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return ""

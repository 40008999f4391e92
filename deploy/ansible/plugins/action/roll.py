"""Passes the module this run's identity, and whether a run of this controller that holds the lock
is dead. A run is an ansible-playbook process, identified by its process id and start time."""

from __future__ import annotations

import getpass
import os
import socket

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        run = this_run()
        if arguments.get("state") == "begun":
            # Only the controller knows whether the holder is alive, so ask for the holder first.
            status = self._execute_module(
                module_args={"state": "ended", "path": arguments.get("path", _PATH), "run": {}},
                task_vars=task_vars,
            )
            if status.get("failed"):
                return status
            holder = status.get("before") or {}
            if is_dead(holder, run):
                run["dead"] = [holder["token"]]
        return self._execute_module(module_args={**arguments, "run": run}, task_vars=task_vars)


_PATH = "/var/lib/penstock/roll/roll.json"


def this_run():
    boot, process = boot_of_this_machine(), os.getppid()
    return {
        "token": f"{boot}/{process}/{start_time(process)}",
        "owner": f"{getpass.getuser()}@{socket.gethostname()}",
        "controller": boot,
        "dead": [],
    }


def is_dead(holder, run):
    """Whether the holder is a run of this controller that has ended. False for other controllers,
    whose processes cannot be seen."""
    token = str(holder.get("token", ""))
    boot, _, rest = token.partition("/")
    process, _, start = rest.partition("/")
    if not process.isdigit() or boot != run["controller"] or token == run["token"]:
        return False
    return start_time(int(process)) != start


def boot_of_this_machine():
    """Returns the id of the current boot. A run that has another boot's id has ended."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def start_time(process):
    """Returns a process's start time in ticks since the boot; "" if there is no such process."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return ""

#!/usr/bin/python
"""The lock of a cluster: a file on one of its hosts that names the run that changes the cluster,
its start, the host that it is changing, and how it ended.

    free ─▶ running ─▶ free        it succeeded
              │  └──▶ stopped      a task or a gate failed
              └─ dead              its controller died, or lost a host

The next run continues a stopped one. It continues a dead one of the same controller, or with
`take_over`.

Only the run that holds the lock may begin a host (`at`). It must record a host as finished before
it begins the next one, and before it ends: after losing a host in the middle of a change, Ansible
would continue with the next host.

The file is read and written under a kernel lock, so that two runs at once cannot both take it.
"""

from __future__ import annotations

import fcntl
import json
import os
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: roll
short_description: Lock a cluster, so that one run at a time changes it
description:
  - C(begun) takes the lock. While another run holds it, the module fails and names that run. Any
    run can continue a C(stopped) one.
options:
  state:
    description: The new state.
    type: str
    choices: [begun, at, stopped, ended]
    required: true
  path: {description: The file., type: path, default: /var/lib/penstock/roll/roll.json}
  what: {description: "The run's name, such as its playbook's.", type: str, default: ""}
  why: {description: The reason for stopping., type: str, default: ""}
  host: {description: The host that is being changed; may be empty., type: str, default: ""}
  take_over: {description: Take the lock of a dead run., type: bool, default: false}
  run: {description: "The run's identity. Internal: set by the action.", type: dict}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: Take the cluster's lock
  penstock.pipeline.roll:
    state: begun
    what: rolling
"""

STATES = ["begun", "at", "stopped", "ended"]
RUNNING = "running"
STOPPED = "stopped"
_MOST_BYTES = 65536


def holder_of(path):
    """Returns the run that holds the lock; None if the lock is free. A damaged file counts as an
    unknown run."""
    try:
        with open(path, "rb") as file:
            holder = json.loads(file.read(_MOST_BYTES))
    except FileNotFoundError:
        return None
    except ValueError:
        return {
            "owner": "somebody",
            "what": "something",
            "since": "?",
            "state": RUNNING,
            "token": "",
        }
    return holder if isinstance(holder, dict) else {"owner": "somebody", "state": RUNNING}


def write(path, holder):
    new_path = path + ".new"
    with open(new_path, "w", encoding="utf-8") as file:
        json.dump(holder, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(new_path, path)


def in_words(holder):
    host = f" (at {holder['host']})" if holder.get("host") else ""
    return (
        f"{holder.get('owner', 'somebody')} has been running {holder.get('what') or 'something'} "
        f"since {holder.get('since', '?')}{host}"
    )


def is_ours(holder, ours):
    """Whether this run already holds the lock."""
    return holder.get("token") == ours["token"] and holder.get("state") == RUNNING


def begin(module, holder, ours):
    """Returns the file's new content, and the run that this one continues. Fails if another run
    holds the lock."""
    if holder is None:
        return ours, None
    if is_ours(holder, ours):
        return None, holder
    is_over = module.params["take_over"] or holder.get("token") in ours["dead"]
    if holder.get("state") != STOPPED and not is_over:
        module.fail_json(
            msg=f"Nothing was changed: {in_words(holder)}. Only one run at a time may change a "
            "cluster: wait until it has ended. If it is dead, take the lock over with -e "
            "penstock_gate_take_over=true.",
            holder=holder,
        )
    return {**ours, "left": unfinished_host(holder)}, holder


def unfinished_host(holder):
    """Returns the host that this run, or the run that it continues, began and did not finish."""
    return holder.get("host") or holder.get("left") or ""


def not_ours(holder):
    """Returns the message for a run that wants to change a host without holding the lock."""
    if holder is None:
        return (
            "Nothing was changed: this run has not taken the cluster's lock. Do not skip its first "
            "plays (--start-at-task, --limit)."
        )
    return f"Nothing more was changed: this run has lost the cluster's lock. {in_words(holder)}."


def interrupted(host):
    return (
        f"{host} was left in the middle of a change: the host, or the connection to it, was lost. "
        "Run the same playbook again when it is back, and the run continues there."
    )


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "required": True, "choices": STATES},
            "path": {"type": "path", "default": "/var/lib/penstock/roll/roll.json"},
            "what": {"type": "str", "default": ""},
            "why": {"type": "str", "default": ""},
            "host": {"type": "str", "default": ""},
            "take_over": {"type": "bool", "default": False},
            "run": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    params = module.params
    path, run = params["path"], params["run"]
    if module.check_mode and not os.path.isdir(os.path.dirname(path)):
        module.exit_json(changed=params["state"] == "begun", before=None)
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    guard = os.open(os.path.dirname(path), os.O_RDONLY)
    fcntl.flock(guard, fcntl.LOCK_EX)
    holder = holder_of(path)
    own_run = {
        "token": run.get("token", ""),
        "owner": run.get("owner", "somebody"),
        "controller": run.get("controller", ""),
        "what": params["what"],
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "state": RUNNING,
        "dead": run.get("dead", []),
    }
    previous_run = holder
    if params["state"] == "begun":
        content, previous_run = begin(module, holder, own_run)
    elif holder is None or not own_run["token"] or holder.get("token") != own_run["token"]:
        if params["state"] == "at" and not module.check_mode:
            module.fail_json(msg=not_ours(holder))
        module.exit_json(changed=False, before=holder)
    elif params["state"] == "at":
        begun_host = holder.get("host")
        if begun_host and params["host"] not in {"", begun_host}:
            module.fail_json(msg=interrupted(begun_host))
        content = {**holder, "host": params["host"]}
    elif params["state"] == "stopped":
        content = {
            **holder,
            "state": STOPPED,
            "why": params["why"][:1000],
            "host": unfinished_host(holder),
        }
    elif holder.get("host"):
        reason = interrupted(holder["host"])
        if not module.check_mode:
            write(path, {**holder, "state": STOPPED, "why": reason})
        module.fail_json(msg=reason)
    else:
        content = {}
    if content is not None and not module.check_mode:
        content.pop("dead", None)
        if content:
            write(path, content)
        else:
            os.unlink(path)
    is_continued = (
        params["state"] == "begun" and bool(previous_run) and not is_ours(previous_run, own_run)
    )
    previous_run = previous_run and {**previous_run, "host": unfinished_host(previous_run)}
    module.exit_json(changed=content is not None, before=previous_run, goes_on=is_continued)


if __name__ == "__main__":
    main()

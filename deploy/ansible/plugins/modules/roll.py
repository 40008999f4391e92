#!/usr/bin/python
"""The lock of a cluster: a file on one of its hosts names the run that changes it, since when, the
host that is being changed, and how the run ended.

    free ─▶ running ─▶ free        it succeeded
              │  └──▶ stopped      a task failed, or a gate stayed shut
              └─ dead              its controller died, or a host went away

The next run continues a stopped one. It continues a dead one on the same controller, or with
`take_over`.

A run that does not hold the lock cannot begin a host (`at`). A host that was begun must be recorded
as done before the next one begins and before the run ends: Ansible may go on to the next host after
it has lost one in the middle.

The file is read and written under a lock of the kernel, so that of two runs at once one sees the
other.
"""

from __future__ import annotations

import fcntl
import json
import os
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: roll
short_description: The lock of a cluster, so that one run at a time changes it
description:
  - C(begun) takes the lock. It fails while another run holds the lock, and names that run. Any run
    can continue one that was C(stopped).
options:
  state:
    description: The new state.
    type: str
    choices: [begun, at, stopped, ended]
    required: true
  path: {description: The file., type: path, default: /var/lib/penstock/roll/roll.json}
  what: {description: "The name of the run, such as a playbook.", type: str, default: ""}
  why: {description: Why it was stopped., type: str, default: ""}
  host: {description: The host that is being changed; or empty., type: str, default: ""}
  take_over: {description: Take the lock of a run that is dead., type: bool, default: false}
  run: {description: The run of Ansible; the action sets it., type: dict}
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
    """The run that holds the lock; None if it is free. A damaged file is held by an unknown run."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(_MOST_BYTES))
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
    return found if isinstance(found, dict) else {"owner": "somebody", "state": RUNNING}


def write(path, holder):
    new = path + ".new"
    with open(new, "w", encoding="utf-8") as file:
        json.dump(holder, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(new, path)


def in_words(holder):
    where = f" (at {holder['host']})" if holder.get("host") else ""
    return (
        f"{holder.get('owner', 'somebody')} has been running {holder.get('what') or 'something'} "
        f"since {holder.get('since', '?')}{where}"
    )


def is_ours(holder, ours):
    """Whether this run holds the lock already."""
    return holder.get("token") == ours["token"] and holder.get("state") == RUNNING


def begin(module, holder, ours):
    """The file's new content, and the run that this one continues. Fails while another holds the
    lock."""
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
    return {**ours, "left": left(holder)}, holder


def left(holder):
    """The host that this run, or one that it continues, has begun and not finished."""
    return holder.get("host") or holder.get("left") or ""


def not_ours(holder):
    """Why a run without the lock may not change a host."""
    if holder is None:
        return (
            "Nothing was changed: this run has not begun, so it does not hold the cluster's lock. "
            "Do not skip its first plays (--start-at-task, --limit)."
        )
    return f"Nothing more was changed: this run has lost the cluster's lock. {in_words(holder)}."


def in_the_middle(host):
    return (
        f"{host} was left in the middle: it, or the connection to it, was lost. Run the same "
        "playbook again when it is back; the run continues there."
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
    given = module.params
    path, run = given["path"], given["run"]
    if module.check_mode and not os.path.isdir(os.path.dirname(path)):
        module.exit_json(changed=given["state"] == "begun", before=None)
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    guard = os.open(os.path.dirname(path), os.O_RDONLY)
    fcntl.flock(guard, fcntl.LOCK_EX)
    holder = holder_of(path)
    ours = {
        "token": run.get("token", ""),
        "owner": run.get("owner", "somebody"),
        "controller": run.get("controller", ""),
        "what": given["what"],
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "state": RUNNING,
        "dead": run.get("dead", []),
    }
    before = holder
    if given["state"] == "begun":
        new, before = begin(module, holder, ours)
    elif holder is None or not ours["token"] or holder.get("token") != ours["token"]:
        if given["state"] == "at" and not module.check_mode:
            module.fail_json(msg=not_ours(holder))
        module.exit_json(changed=False, before=holder)
    elif given["state"] == "at":
        begun = holder.get("host")
        if begun and given["host"] not in {"", begun}:
            module.fail_json(msg=in_the_middle(begun))
        new = {**holder, "host": given["host"]}
    elif given["state"] == "stopped":
        new = {**holder, "state": STOPPED, "why": given["why"][:1000], "host": left(holder)}
    elif holder.get("host"):
        why = in_the_middle(holder["host"])
        if not module.check_mode:
            write(path, {**holder, "state": STOPPED, "why": why})
        module.fail_json(msg=why)
    else:
        new = {}
    if new is not None and not module.check_mode:
        new.pop("dead", None)
        if new:
            write(path, new)
        else:
            os.unlink(path)
    goes_on = given["state"] == "begun" and bool(before) and not is_ours(before, ours)
    before = before and {**before, "host": left(before)}
    module.exit_json(changed=new is not None, before=before, goes_on=goes_on)


if __name__ == "__main__":
    main()

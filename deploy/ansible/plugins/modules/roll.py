#!/usr/bin/python
"""One who changes a cluster at a time: a file on one of its hosts says who does, since when, at
which host, and how it ended.

    nobody ─▶ running ─▶ nobody      it went well
                │  └──▶ stopped      something failed, or a gate stayed shut
                └─ the run is over without a word: its controller died, or a host went away

The next run goes on from the last two: after a run without a word that of the same controller, or
of whoever says so.

No host is begun (`at`) by a run that has not begun itself, or whose place another one took. A host
that is begun is done when that is said. Ansible may go on to the next one when it has lost a host
in the middle: then the next one cannot be begun, nor can the run end well.

The file is read and written under a lock of the kernel's, so that of two who come at once one is
told of the other.
"""

from __future__ import annotations

import fcntl
import json
import os
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: roll
short_description: Says that a cluster is being changed, so that two operators do not do it at once
description:
  - C(begun) fails while somebody else is at it, and names him. What was C(stopped) may be taken up
    by anybody.
options:
  state:
    description: What is so now.
    type: str
    choices: [begun, at, stopped, ended]
    required: true
  path: {description: The file that says so., type: path, default: /var/lib/penstock/roll/roll.json}
  what: {description: "What is being done, in words.", type: str, default: ""}
  why: {description: Why it was stopped., type: str, default: ""}
  host: {description: At which host it is; empty between two of them., type: str, default: ""}
  take_over: {description: Whoever is at it is not any more., type: bool, default: false}
  run: {description: Which run of Ansible this is; its action says so., type: dict}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: Nobody else changes the cluster
  penstock.pipeline.roll:
    state: begun
    what: rolling
"""

STATES = ["begun", "at", "stopped", "ended"]
RUNNING = "running"
STOPPED = "stopped"
_MOST_BYTES = 65536


def holder_of(path):
    """Who has it; None if nobody has. What cannot be read is somebody unknown."""
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
        f"{holder.get('owner', 'somebody')} runs {holder.get('what') or 'something'} since "
        f"{holder.get('since', '?')}{where}"
    )


def is_ours(holder, ours):
    """Whether this very run has it already."""
    return holder.get("token") == ours["token"] and holder.get("state") == RUNNING


def begin(module, holder, ours):
    """What is to be written, and what it follows. Fails while another one is at it."""
    if holder is None:
        return ours, None
    if is_ours(holder, ours):
        return None, holder
    is_over = module.params["take_over"] or holder.get("token") in ours["dead"]
    if holder.get("state") != STOPPED and not is_over:
        module.fail_json(
            msg=f"{in_words(holder)}, and one at a time changes a cluster. Wait until that is over;"
            " if nobody runs it any more, say -e penstock_gate_take_over=true.",
            holder=holder,
        )
    return {**ours, "left": left(holder)}, holder


def left(holder):
    """The host that was begun and is not done, by this run or one that it follows."""
    return holder.get("host") or holder.get("left") or ""


def not_ours(holder):
    """Why a run that has not begun, or is followed by another one, may not touch a host."""
    if holder is None:
        return "This run has not begun, so nobody else is kept away (--start-at-task, --limit?)."
    return f"{in_words(holder)}, and not this run."


def in_the_middle(host):
    return (
        f"{host} was left in the middle: it, or the connection to it, was lost. Run the same "
        "playbook again when it is back; it goes on there."
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

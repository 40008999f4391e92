#!/usr/bin/python
"""What there should be in a cluster, brought about by the `penstock` of a release.

The command compares, says what would be refused, and does the rest; nothing of Kafka's protocol or
the registry's is known here. What it is given lies in a directory that only root can read and that
is gone afterwards: names of files in it are numbers, whatever things are called.
"""

from __future__ import annotations

import json
import os
import tempfile

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: declared
short_description: Topics, ACLs, users and schemas as they are declared
description:
  - Runs C(penstock topics apply), C(acls apply), C(users apply) or C(schemas apply). In check mode
    it only asks what would be done, and with C(--diff) it shows it.
  - Nothing is deleted that is not declared as absent, unless I(exact) says that all is declared.
  - If any of it would be refused, nothing is changed.
options:
  what:
    description: What is declared.
    type: str
    required: true
    choices: [topics, acls, users, schemas]
  entries:
    description: Entries as in the command's file; of schemas there are none.
    type: list
    elements: dict
    default: []
  exact:
    description: Delete topics, and rules, that are not among the entries.
    type: bool
    default: false
  program:
    description: The command.
    type: path
    default: /opt/penstock/bin/penstock
  brokers:
    description: Some brokers of the cluster, as C(host:port).
    type: list
    elements: str
    default: []
  registry:
    description: Some registries, as URLs with commas between them.
    type: str
    default: ""
  security:
    description: How brokers are connected to, and registries asked.
    type: dict
    default: {}
  zookeeper:
    description: Users go into this ZooKeeper, past the brokers; for the first of them.
    type: str
    default: ""
  zookeeper_secret_file:
    description: The secret that guards it, on the host.
    type: path
  check_logins:
    description: Try the passwords of users, and set those that are not right.
    type: bool
    default: false
  schemas_dir:
    description: A folder of schemas on the controller, C(SUBJECT.avsc) and C(schemas.yaml).
    type: path
  absent:
    description: Subjects that are deleted if they are there.
    type: list
    elements: str
    default: []
  compatibility:
    description: The level of all subjects without one of their own.
    type: str
    default: ""
  passwords_dir:
    description: Where on the controller a user has NAME.password; what is not there is made up.
    type: path
  rotate:
    description: Users who get a password that is made up anew.
    type: list
    elements: str
    default: []
  encrypt:
    description: Encrypt passwords that are made up, with the secret of ansible-vault.
    type: bool
    default: false
  files:
    description: Contents of schema files by their paths. What reads the folder fills this in.
    type: dict
    default: {}
  passwords:
    description: Passwords by the names of users. What reads their directory fills this in.
    type: dict
    default: {}
  timeout:
    description: For how many seconds the command may take.
    type: int
    default: 300
author: The Penstock authors
"""

EXAMPLES = r"""
- name: Topics
  penstock.pipeline.declared:
    what: topics
    brokers: [broker-1.example:9092]
    entries:
      - {name: page_views, partitions: 8, replication: 3, configs: {retention.ms: 86400000}}
      - {name: views_2019, state: absent}
"""

RETURN = r"""
items:
  description: What became of each thing, with its outcome.
  returned: always
  type: list
"""

UNCHANGED, REFUSED = "unchanged", "refused"
_LONGEST = 2000
_VARIABLES = ("BOOTSTRAP", "REGISTRY", "SECURITY", "REGISTRY_SECURITY", "AUDIT", "AGENT")


class Declared:
    def __init__(self, module, folder):
        self.module = module
        self.folder = folder
        self.given = module.params

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, document):
        """JSON is YAML; ${ would name a variable of the environment."""
        text = json.dumps(document).replace("${", "$${")
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def options(self, *, registry):
        options = ["--json"]
        where = self.given["registry"] if registry else ",".join(self.given["brokers"])
        if where:
            options += ["--registry" if registry else "--bootstrap", where]
        if self.given["security"]:
            file = self.write("security.yaml", self.given["security"])
            options += ["--registry-security" if registry else "--security", file]
        return options

    def penstock(self, *arguments):
        """What the command says as JSON, and its line if it did not do what it was asked for."""
        command = [
            *("timeout", str(self.given["timeout"])),
            *(self.given["program"], *arguments),
        ]
        unset = {f"PENSTOCK_{name}": "" for name in _VARIABLES}
        environment = {name: value for name, value in os.environ.items() if name not in unset}
        os.environ.clear()
        os.environ.update(environment)
        rc, out, error = self.module.run_command(command, cwd=self.folder)
        line = (error.strip().splitlines() or [f"it ended with {rc}"])[-1]
        if rc == 124:
            line = f"it did not end within {self.given['timeout']} seconds"
        try:
            return json.loads(out), (line if rc else "")
        except ValueError:
            return None, (line if rc else "it said nothing that can be read")

    def fail(self, message, **more):
        self.module.fail_json(msg=message.replace(self.folder + "/", "")[:_LONGEST], **more)

    def apply(self):
        """Of topics, ACLs and users; items as the command has them."""
        what = self.given["what"]
        entries = [dict(each) for each in self.given["entries"]]
        if what == "users":
            self.write_passwords(entries)
        options = self.options(registry=False)
        if self.given["exact"] and what != "users":
            options.append("--exact")
        if what == "users":
            options += self.user_options()
        if self.module.check_mode:
            options.append("--dry-run")
        file = self.write(f"{what}.yaml", {what: entries})
        return self.items(*self.penstock(what, "apply", file, "--yes", *options))

    def user_options(self):
        if self.given["zookeeper"]:
            options = ["--zookeeper", self.given["zookeeper"]]
            if self.given["zookeeper_secret_file"]:
                options += ["--zookeeper-secret-file", self.given["zookeeper_secret_file"]]
            return options
        return ["--check-logins"] if self.given["check_logins"] else []

    def write_passwords(self, entries):
        for number, entry in enumerate(entries):
            password = self.given["passwords"].get(entry.get("name"))
            if password is None:
                continue
            entry["password_file"] = f"{number}.password"
            with open(self.path(entry["password_file"]), "w", encoding="utf-8") as file:
                file.write(password)

    def schemas(self):
        """Levels and deletions as items as well: they have no dry run of their own."""
        items = self.registered()
        options = self.options(registry=True)
        items += self.deleted(options)
        level = self.given["compatibility"].upper()
        if level:
            said, line = self.penstock("schemas", "config", *options)
            if said is None:
                self.fail(line)
            item = {
                "name": "compatibility",
                "outcome": UNCHANGED if said["level"] == level else "changed",
                "before": said["level"],
                "after": level,
            }
            if item["outcome"] != UNCHANGED and not self.module.check_mode:
                _, line = self.penstock("schemas", "config", "--set", level, *options)
                if line:
                    self.fail(line, items=items)
            items.append(item)
        return items

    def registered(self):
        if not self.given["files"]:
            return []
        folder = self.path("schemas")
        for name, text in self.given["files"].items():
            path = os.path.normpath(os.path.join(folder, name))
            if not path.startswith(folder + os.sep):
                self.fail(f"{name!r} leads out of the folder")
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        options = self.options(registry=True)
        if self.module.check_mode:
            options.append("--dry-run")
        said, line = self.penstock("schemas", "apply", folder, *options)
        if said is not None:
            said["schemas"] = [schema_item(each) for each in said["schemas"]]
        return self.items(said, line)

    def deleted(self, options):
        if not self.given["absent"]:
            return []
        said, line = self.penstock("schemas", "list", *options)
        if said is None:
            self.fail(line)
        there = {each["subject"]: each for each in said}
        items = []
        for subject in self.given["absent"]:
            row = there.get(subject)
            item = {"name": subject, "outcome": UNCHANGED, "before": None, "after": None}
            items.append(item)
            if row is None:
                continue
            item.update(outcome="deleted", before={"version": row["version"], "id": row["id"]})
            if not self.module.check_mode:
                # Behind `--`: a subject may be called whatever a registry takes.
                _, line = self.penstock("schemas", "delete", "--yes", *options, "--", subject)
                if line:
                    self.fail(line, items=items)
        return items

    def items(self, said, line):
        if said is None:
            self.fail(line)
        items = said[self.given["what"]]
        bad = [each for each in items if each["outcome"] == REFUSED]
        if bad:
            why = (f"{each['name']}: {'; '.join(each['reasons'])}" for each in bad)
            self.fail("refused, and nothing was changed: " + " | ".join(why), items=items)
        if line:
            done = [each["name"] for each in items if each.get("applied")]
            self.fail(line, items=items, changed=bool(done))
        return items


def schema_item(said):
    """One of `schemas apply`, in the words of the others."""
    level = said["level"]
    before = {"compatibility": level["old"]} if level else None
    after = {"compatibility": level["new"]} if level else {}
    if said["outcome"] in {"new", "changed"}:
        after["differences"] = said["differences"]
    outcome = said["outcome"]
    if outcome == UNCHANGED and level:
        outcome = "changed"
    return {
        "name": said["subject"],
        "outcome": outcome,
        "applied": said["applied"],
        "before": before,
        "after": after or None,
        "reasons": said["reasons"],
    }


def diff(items, what):
    """Before and after of what changes, as people read it."""
    changed = [each for each in items if each["outcome"] != UNCHANGED]

    def text(side):
        shown = {each["name"]: each[side] for each in changed if each[side] is not None}
        return json.dumps(shown, indent=2, sort_keys=True) + "\n" if shown else ""

    return {
        "before": text("before"),
        "after": text("after"),
        "before_header": what,
        "after_header": what,
    }


def main():
    text, listed, mapping = {"type": "str"}, {"type": "list", "default": []}, {"type": "dict"}
    module = AnsibleModule(
        argument_spec={
            "what": {**text, "required": True, "choices": ["topics", "acls", "users", "schemas"]},
            "entries": {**listed, "elements": "dict"},
            "exact": {"type": "bool", "default": False},
            "program": {"type": "path", "default": "/opt/penstock/bin/penstock"},
            "brokers": {**listed, "elements": "str"},
            "registry": {**text, "default": ""},
            "security": {**mapping, "default": {}},
            "zookeeper": {**text, "default": ""},
            "zookeeper_secret_file": {"type": "path"},
            "check_logins": {"type": "bool", "default": False},
            "schemas_dir": {"type": "path"},
            "absent": {**listed, "elements": "str"},
            "compatibility": {**text, "default": ""},
            "passwords_dir": {"type": "path", "no_log": False},
            "rotate": {**listed, "elements": "str"},
            "encrypt": {"type": "bool", "default": False},
            "files": {**mapping, "default": {}},
            "passwords": {**mapping, "default": {}, "no_log": True},
            "timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    os.umask(0o077)
    with tempfile.TemporaryDirectory(dir=module.tmpdir) as folder:
        declared = Declared(module, folder)
        what = module.params["what"]
        items = declared.schemas() if what == "schemas" else declared.apply()
    module.exit_json(
        changed=any(each["outcome"] != UNCHANGED for each in items),
        items=items,
        diff=diff(items, what),
    )


if __name__ == "__main__":
    main()

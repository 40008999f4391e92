#!/usr/bin/python
"""Makes a cluster's topics, ACLs, users and schemas match their declaration, with `penstock`.

The command compares, reports what the cluster would reject, and applies the changes; this module
speaks neither Kafka's protocol nor the registry's. The command's input is in a temporary directory
that only root can read. Password files there are named by number, since users' names need not be
valid file names.
"""

from __future__ import annotations

import json
import os
import tempfile

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: declared
short_description: Apply declared topics, ACLs, users and schemas
description:
  - Runs C(penstock topics apply), C(acls apply), C(users apply) or C(schemas apply). Check mode
    only computes the changes; C(--diff) shows them.
  - Deletes only entries that are declared absent. With I(exact), also deletes undeclared ones.
  - Changes nothing if any entry would be rejected.
options:
  what:
    description: The kind of entries.
    type: str
    required: true
    choices: [topics, acls, users, schemas]
  entries:
    description: Entries as in the command's file. Schemas have none.
    type: list
    elements: dict
    default: []
  exact:
    description: Delete topics or ACL rules that are not among the entries.
    type: bool
    default: false
  program:
    description: The command.
    type: path
    default: /opt/penstock/bin/penstock
  brokers:
    description: Brokers of the cluster, as C(host:port); some of them suffice.
    type: list
    elements: str
    default: []
  registry:
    description: URLs of registries, separated by commas.
    type: str
    default: ""
  security:
    description: The security settings for connections to brokers and registries.
    type: dict
    default: {}
  zookeeper:
    description: Write users to this ZooKeeper instead of asking brokers. For the first users.
    type: str
    default: ""
  zookeeper_secret_file:
    description: The file on the host with the secret for ZooKeeper's digest login.
    type: path
  check_logins:
    description: Try to log in with users' passwords, and set those that fail.
    type: bool
    default: false
  schemas_dir:
    description: A folder on the controller with C(SUBJECT.avsc) files and C(schemas.yaml).
    type: path
  absent:
    description: Subjects to delete if they exist.
    type: list
    elements: str
    default: []
  compatibility:
    description: The registry's default compatibility level.
    type: str
    default: ""
  passwords_dir:
    description: The controller's folder of C(USER.password) files. Missing passwords are generated.
    type: path
  rotate:
    description: Users who get a new generated password.
    type: list
    elements: str
    default: []
  encrypt:
    description: Encrypt generated passwords with ansible-vault's secret.
    type: bool
    default: false
  files:
    description: "Schema files' contents by path. Internal: set by the action."
    type: dict
    default: {}
  passwords:
    description: "Passwords by user. Internal: set by the action."
    type: dict
    default: {}
  timeout:
    description: The command's time limit in seconds.
    type: int
    default: 300
author: The Penstock authors
"""

EXAMPLES = r"""
- name: Create and delete topics
  penstock.pipeline.declared:
    what: topics
    brokers: [broker-1.example:9092]
    entries:
      - {name: page_views, partitions: 8, replication: 3, configs: {retention.ms: 86400000}}
      - {name: views_2019, state: absent}
"""

RETURN = r"""
items:
  description: The entries, with their outcomes.
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
        self.params = module.params

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, document):
        """Writes a YAML file as JSON. Escapes ${, which would name an environment variable."""
        text = json.dumps(document).replace("${", "$${")
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def options(self, *, registry):
        options = ["--json"]
        servers = self.params["registry"] if registry else ",".join(self.params["brokers"])
        if servers:
            options += ["--registry" if registry else "--bootstrap", servers]
        if self.params["security"]:
            file = self.write("security.yaml", self.params["security"])
            options += ["--registry-security" if registry else "--security", file]
        return options

    def penstock(self, *arguments):
        """Runs the command. Returns its JSON output, None if unreadable, and if it failed the last
        line of its stderr."""
        command = [
            *("timeout", str(self.params["timeout"])),
            *(self.params["program"], *arguments),
        ]
        variables = {f"PENSTOCK_{name}": "" for name in _VARIABLES}
        environment = {name: value for name, value in os.environ.items() if name not in variables}
        os.environ.clear()
        os.environ.update(environment)
        code, output, error = self.module.run_command(command, cwd=self.folder)
        line = (error.strip().splitlines() or [f"penstock {arguments[0]}: exit code {code}"])[-1]
        if code == 124:
            line = f"penstock {arguments[0]} took more than {self.params['timeout']} seconds"
        try:
            return json.loads(output), (line if code else "")
        except ValueError:
            return None, (line if code else f"penstock {arguments[0]} printed no JSON")

    def fail(self, message, **more):
        self.module.fail_json(msg=message.replace(self.folder + "/", "")[:_LONGEST], **more)

    def apply(self):
        """Applies topics, ACLs or users; returns the command's items."""
        kind = self.params["what"]
        entries = [dict(entry) for entry in self.params["entries"]]
        if kind == "users":
            self.write_passwords(entries)
        options = self.options(registry=False)
        if self.params["exact"] and kind != "users":
            options.append("--exact")
        if kind == "users":
            options += self.user_options()
        if self.module.check_mode:
            options.append("--dry-run")
        file = self.write(f"{kind}.yaml", {kind: entries})
        return self.items(*self.penstock(kind, "apply", file, "--yes", *options))

    def user_options(self):
        if self.params["zookeeper"]:
            options = ["--zookeeper", self.params["zookeeper"]]
            if self.params["zookeeper_secret_file"]:
                options += ["--zookeeper-secret-file", self.params["zookeeper_secret_file"]]
            return options
        return ["--check-logins"] if self.params["check_logins"] else []

    def write_passwords(self, entries):
        for index, entry in enumerate(entries):
            password = self.params["passwords"].get(entry.get("name"))
            if password is None:
                continue
            entry["password_file"] = f"{index}.password"
            with open(self.path(entry["password_file"]), "w", encoding="utf-8") as file:
                file.write(password)

    def schemas(self):
        """Applies schemas, deletions and the default level; returns items for all of them. The
        command has no dry run for the last two, so check mode is handled here."""
        items = self.registered()
        options = self.options(registry=True)
        items += self.deleted(options)
        level = self.params["compatibility"].upper()
        if level:
            current_level, line = self.penstock("schemas", "config", *options)
            if current_level is None:
                self.fail(line)
            item = {
                "name": "compatibility",
                "outcome": UNCHANGED if current_level["level"] == level else "changed",
                "before": current_level["level"],
                "after": level,
            }
            if item["outcome"] != UNCHANGED and not self.module.check_mode:
                _, line = self.penstock("schemas", "config", "--set", level, *options)
                if line:
                    self.fail(line, items=items)
            items.append(item)
        return items

    def registered(self):
        if not self.params["files"]:
            return []
        folder = self.path("schemas")
        for name, text in self.params["files"].items():
            path = os.path.normpath(os.path.join(folder, name))
            if not path.startswith(folder + os.sep):
                self.fail(f"{name!r} is outside the folder")
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        options = self.options(registry=True)
        if self.module.check_mode:
            options.append("--dry-run")
        report, line = self.penstock("schemas", "apply", folder, *options)
        if report is not None:
            report["schemas"] = [schema_item(row) for row in report["schemas"]]
        return self.items(report, line)

    def deleted(self, options):
        if not self.params["absent"]:
            return []
        rows, line = self.penstock("schemas", "list", *options)
        if rows is None:
            self.fail(line)
        rows_by_subject = {row["subject"]: row for row in rows}
        items = []
        for subject in self.params["absent"]:
            row = rows_by_subject.get(subject)
            item = {"name": subject, "outcome": UNCHANGED, "before": None, "after": None}
            items.append(item)
            if row is None:
                continue
            item.update(outcome="deleted", before={"version": row["version"], "id": row["id"]})
            if not self.module.check_mode:
                # After `--`: a subject's name may begin with a dash.
                _, line = self.penstock("schemas", "delete", "--yes", *options, "--", subject)
                if line:
                    self.fail(line, items=items)
        return items

    def items(self, report, line):
        if report is None:
            self.fail(line)
        items = report[self.params["what"]]
        rejected_items = [item for item in items if item["outcome"] == REFUSED]
        if rejected_items:
            reasons = (f"{item['name']}: {'; '.join(item['reasons'])}" for item in rejected_items)
            self.fail("refused, and nothing was changed: " + " | ".join(reasons), items=items)
        if line:
            applied_names = [item["name"] for item in items if item.get("applied")]
            self.fail(line, items=items, changed=bool(applied_names))
        return items


def schema_item(row):
    """Converts a row of `schemas apply` into an item like those of the other commands."""
    level = row["level"]
    before = {"compatibility": level["old"]} if level else None
    after = {"compatibility": level["new"]} if level else {}
    if row["outcome"] in {"new", "changed"}:
        after["differences"] = row["differences"]
    outcome = row["outcome"]
    if outcome == UNCHANGED and level:
        outcome = "changed"
    return {
        "name": row["subject"],
        "outcome": outcome,
        "applied": row["applied"],
        "before": before,
        "after": after or None,
        "reasons": row["reasons"],
    }


def diff(items, what):
    """Returns the changes for `--diff`, as JSON before and after."""
    changes = [item for item in items if item["outcome"] != UNCHANGED]

    def text(side):
        values = {item["name"]: item[side] for item in changes if item[side] is not None}
        return json.dumps(values, indent=2, sort_keys=True) + "\n" if values else ""

    return {
        "before": text("before"),
        "after": text("after"),
        "before_header": what,
        "after_header": what,
    }


def main():
    text, list_spec, mapping = {"type": "str"}, {"type": "list", "default": []}, {"type": "dict"}
    module = AnsibleModule(
        argument_spec={
            "what": {**text, "required": True, "choices": ["topics", "acls", "users", "schemas"]},
            "entries": {**list_spec, "elements": "dict"},
            "exact": {"type": "bool", "default": False},
            "program": {"type": "path", "default": "/opt/penstock/bin/penstock"},
            "brokers": {**list_spec, "elements": "str"},
            "registry": {**text, "default": ""},
            "security": {**mapping, "default": {}},
            "zookeeper": {**text, "default": ""},
            "zookeeper_secret_file": {"type": "path"},
            "check_logins": {"type": "bool", "default": False},
            "schemas_dir": {"type": "path"},
            "absent": {**list_spec, "elements": "str"},
            "compatibility": {**text, "default": ""},
            "passwords_dir": {"type": "path", "no_log": False},
            "rotate": {**list_spec, "elements": "str"},
            "encrypt": {"type": "bool", "default": False},
            "files": {**mapping, "default": {}},
            "passwords": {**mapping, "default": {}, "no_log": True},
            "timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    os.umask(0o077)
    with tempfile.TemporaryDirectory(dir=module.tmpdir) as folder:
        declaration = Declared(module, folder)
        kind = module.params["what"]
        items = declaration.schemas() if kind == "schemas" else declaration.apply()
    module.exit_json(
        changed=any(item["outcome"] != UNCHANGED for item in items),
        items=items,
        diff=diff(items, kind),
    )


if __name__ == "__main__":
    main()

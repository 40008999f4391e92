#!/usr/bin/python
"""Creates a program's user and directories, and installs its files together after checking them.

New files are first written with their owners and modes below a staging directory,
`/etc/penstock/.new-…`, under their whole paths, and the checks read them there. If all checks pass,
the files are renamed into place one by one: readers see a file's old or new content, and an invalid
file replaces nothing. After an interruption every file is complete, and the next run installs the
rest.
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
import tempfile

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: placed
short_description: Check and install a program's user, directories and files together
description:
  - Leaves files alone that are correct already.
  - Replaces nothing unless all checks pass.
options:
  user: {description: "A system user, with a group of the same name.", type: str, default: ""}
  directories:
    description: Directories, parents first.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: The path., type: path, required: true}
      owner: {description: The owner., type: str, default: root}
      group: {description: The group., type: str, default: root}
      mode: {description: The mode in octal., type: str, default: "0755"}
  files:
    description: Text files.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: The path., type: path, required: true}
      content: {description: The content., type: str, default: ""}
      owner: {description: The owner., type: str, default: root}
      group: {description: The group., type: str, default: root}
      mode: {description: The mode in octal., type: str, default: "0644"}
  absent: {description: Files to remove., type: list, elements: path, default: []}
  stage: {description: The staging directory's parent., type: path, default: /etc/penstock}
  checks:
    description:
      - Commands that check the staged files, as lists of words. They run as the user. C({stage}) is
        replaced by the staging directory, which contains the files under their whole paths.
    type: list
    elements: list
    default: []
author: The Penstock authors
"""

EXAMPLES = r"""
- name: Install the agent's files
  penstock.pipeline.placed:
    user: penstock-agent
    files:
      - path: /etc/penstock/agent.yaml
        content: "{{ config | to_nice_yaml }}"
    checks:
      - [/opt/penstock/bin/penstock, check-config, agent, "{stage}/etc/penstock/agent.yaml"]
"""

RETURN = r"""
places:
  description: The changed paths and users.
  returned: always
  type: list
  elements: str
"""

_MOST_BYTES = 4 << 20  # of a file whose former content is compared and shown
_SHOWN_OUTPUT = 2_000


class Placing:
    def __init__(self, module):
        self.module = module
        self.params = module.params
        self.dry = module.check_mode
        self.places = []
        self.diffs = []

    def run(self):
        self.make_user()
        for directory in self.params["directories"]:
            self.make_directory(directory)
        changed_files = [file for file in self.params["files"] if not self.is_current(file)]
        if changed_files:
            self.check_and_place(changed_files)
        for path in self.params["absent"]:
            if os.path.lexists(path):
                self.record(path, content_of(path), "")
                if not self.dry:
                    os.unlink(path)
        self.module.exit_json(changed=bool(self.places), places=self.places, diff=self.diffs)

    def make_user(self):
        name = self.params["user"]
        if not name or id_of(pwd.getpwnam, name) is not None:
            return
        self.record(f"user {name}", "", "a system user\n")
        if self.dry:
            return
        options = ["--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
        group = ["--gid", name] if id_of(grp.getgrnam, name) is not None else ["--user-group"]
        command = ["useradd", "--system", *group, *options, "--comment", "Penstock", name]
        exit_code, _out, error = self.module.run_command(command)
        if exit_code:
            self.module.fail_json(msg=f"cannot create the user {name}: {error.strip()}")

    def owner(self, entry):
        return id_of(pwd.getpwnam, entry["owner"]), id_of(grp.getgrnam, entry["group"])

    def make_directory(self, directory):
        path = directory["path"]
        mode = int(directory["mode"], 8)
        owner = self.owner(directory)
        if os.path.isdir(path) and attributes(path) == (mode, *owner):
            return
        self.record(path, "", "a directory\n")
        if self.dry:
            return
        os.makedirs(path, exist_ok=True)
        self.set_attributes(path, directory)

    def set_attributes(self, path, entry):
        owner = self.owner(entry)
        if None in owner:
            raise OSError(f"{path}: user {entry['owner']} or group {entry['group']} does not exist")
        os.chown(path, *owner)
        os.chmod(path, int(entry["mode"], 8))

    def is_current(self, file):
        """Whether the installed file has the right content, owner and mode."""
        return content_of(file["path"]) == file["content"] and attributes(file["path"]) == (
            int(file["mode"], 8),
            *self.owner(file),
        )

    def check_and_place(self, changed):
        """Stages and checks all files, which may refer to each other; installs changed ones."""
        for file in changed:
            before = content_of(file["path"])
            is_same = before == file["content"]
            after = file["content"] + ("# with another owner or mode\n" if is_same else "")
            self.record(file["path"], before, after)
        if self.dry and not self.may_stage():
            return  # a new host, which lacks the directory or a user
        os.makedirs(self.params["stage"], exist_ok=True)
        stage = tempfile.mkdtemp(prefix=".new-", dir=self.params["stage"])
        try:
            os.chmod(stage, 0o711)  # noqa: S103  checks run as the user
            for directory in self.params["directories"]:
                os.makedirs(stage + directory["path"], exist_ok=True)
            for file in self.params["files"]:
                self.write(stage + file["path"], file)
            for check_command in self.params["checks"]:
                self.check([str(word).replace("{stage}", stage) for word in check_command], stage)
            for file in changed if not self.dry else ():
                self.into_place(stage + file["path"], file["path"])
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    def may_stage(self):
        owners = [self.owner(file) for file in self.params["files"]]
        return os.path.isdir(self.params["stage"]) and all(None not in owner for owner in owners)

    def write(self, path, file):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.write(file["content"])
            stream.flush()
            os.fsync(stream.fileno())
        self.set_attributes(path, file)

    def check(self, words, stage):
        if self.dry and words[0].startswith("/") and not os.path.exists(words[0]):
            return  # the release, which contains the command, is not installed yet
        user = self.params["user"]
        if user and user != "root" and os.geteuid() == 0:
            words = ["setpriv", "--reuid", user, "--regid", user, "--init-groups", *words]
        exit_code, output, error = self.module.run_command(words, cwd="/")
        if exit_code:
            reason = (error.strip() or output.strip() or f"exit code {exit_code}")[-_SHOWN_OUTPUT:]
            self.module.fail_json(msg=f"no file was replaced: {reason.replace(stage, '')}")

    def into_place(self, new, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.stat(new).st_dev != os.stat(os.path.dirname(path)).st_dev:
            # A rename works only within a file system, so copy the file there first.
            new_path = os.path.join(os.path.dirname(path), f".new-{os.path.basename(path)}")
            status = os.stat(new)
            shutil.copy2(new, new_path)
            os.chown(new_path, status.st_uid, status.st_gid)
            new = new_path
        os.replace(new, path)
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def record(self, place, before, after):
        self.places.append(place)
        headers = {"before_header": place, "after_header": place}
        self.diffs.append({"before": before or "", "after": after, **headers})


def id_of(lookup, name):
    """Returns the id of a user or group; None if it does not exist."""
    try:
        return lookup(name)[2]
    except KeyError:
        return None


def attributes(path):
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid


def content_of(path):
    """Returns the file's text; None if it does not exist, is too large, or is not text."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode) or os.lstat(path).st_size > _MOST_BYTES:
            return None
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None


def main():
    def entries(mode, **more):
        options = {
            "path": {"type": "path", "required": True},
            "owner": {"type": "str", "default": "root"},
            "group": {"type": "str", "default": "root"},
            "mode": {"type": "str", "default": mode},
            **more,
        }
        return {"type": "list", "elements": "dict", "default": [], "options": options}

    module = AnsibleModule(
        argument_spec={
            "user": {"type": "str", "default": ""},
            "directories": entries("0755"),
            "files": entries("0644", content={"type": "str", "default": ""}),
            "absent": {"type": "list", "elements": "path", "default": []},
            "stage": {"type": "path", "default": "/etc/penstock"},
            "checks": {"type": "list", "elements": "list", "default": []},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)
    try:
        Placing(module).run()
    except OSError as error:
        module.fail_json(msg=f"{error.filename or ''}: {error.strerror or error}".lstrip(": "))


if __name__ == "__main__":
    main()

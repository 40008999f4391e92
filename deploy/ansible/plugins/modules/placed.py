#!/usr/bin/python
"""A program's user, directories and files, put in place together once they were found right.

Files are first written as they are to be (content, owner, mode) to a directory beside those that
they replace, `/etc/penstock/.new-…`, by their whole paths. Checks look at them there. Only then is
each renamed over what it replaces: whoever reads has the old file or the new one, and one that is
wrong replaces nothing. A run that is cut off leaves files of which each is whole, and the next one
does the rest.
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
short_description: A program's user, directories and files, checked and put in place together
description:
  - What is there already, as it is to be, is left alone.
  - Nothing is replaced unless all checks have passed.
options:
  user: {description: "A system user, with a group of its name.", type: str, default: ""}
  directories:
    description: Made where they are missing, the outer ones first.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: Where., type: path, required: true}
      owner: {description: A user., type: str, default: root}
      group: {description: A group., type: str, default: root}
      mode: {description: In octal., type: str, default: "0755"}
  files:
    description: Text files, as they are to be.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: Where., type: path, required: true}
      content: {description: What., type: str, default: ""}
      owner: {description: A user., type: str, default: root}
      group: {description: A group., type: str, default: root}
      mode: {description: In octal., type: str, default: "0644"}
  absent: {description: Files that are not to be there., type: list, elements: path, default: []}
  stage: {description: Beside what new files wait., type: path, default: /etc/penstock}
  checks:
    description:
      - Commands that look at the files before they are in place, each a list of words. C({stage})
        is the directory below which the files lie by their whole paths. They are run as the user.
    type: list
    elements: list
    default: []
author: The Penstock authors
"""

EXAMPLES = r"""
- name: The agent's files
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
  description: What was changed.
  returned: always
  type: list
  elements: str
"""

_MOST_BYTES = 4 << 20  # of a file that is shown as it was before
_LAST_WORDS = 2_000


class Placing:
    def __init__(self, module):
        self.module = module
        self.given = module.params
        self.dry = module.check_mode
        self.places = []
        self.diffs = []

    def all(self):
        self.make_user()
        for each in self.given["directories"]:
            self.make_directory(each)
        wanted = [each for each in self.given["files"] if not self.stands(each)]
        if wanted:
            self.check_and_place(wanted)
        for path in self.given["absent"]:
            if os.path.lexists(path):
                self.tell(path, content_of(path), "")
                if not self.dry:
                    os.unlink(path)
        self.module.exit_json(changed=bool(self.places), places=self.places, diff=self.diffs)

    def make_user(self):
        name = self.given["user"]
        if not name or number(pwd.getpwnam, name) is not None:
            return
        self.tell(f"user {name}", "", "a system user\n")
        if self.dry:
            return
        shell = ["--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
        which = ["--gid", name] if number(grp.getgrnam, name) is not None else ["--user-group"]
        command = ["useradd", "--system", *which, *shell, "--comment", "Penstock", name]
        code, _said, wrong = self.module.run_command(command)
        if code:
            self.module.fail_json(msg=f"cannot create the user {name}: {wrong.strip()}")

    def owner(self, each):
        return number(pwd.getpwnam, each["owner"]), number(grp.getgrnam, each["group"])

    def make_directory(self, each):
        path = each["path"]
        mode = int(each["mode"], 8)
        owner = self.owner(each)
        if os.path.isdir(path) and attributes(path) == (mode, *owner):
            return
        self.tell(path, "", "a directory\n")
        if self.dry:
            return
        os.makedirs(path, exist_ok=True)
        self.owned(path, each)

    def owned(self, path, each):
        owner = self.owner(each)
        if None in owner:
            raise OSError(f"{path}: there is no user {each['owner']}, or no group {each['group']}")
        os.chown(path, *owner)
        os.chmod(path, int(each["mode"], 8))

    def stands(self, each):
        """Whether it is there already, as it is to be."""
        return content_of(each["path"]) == each["content"] and attributes(each["path"]) == (
            int(each["mode"], 8),
            *self.owner(each),
        )

    def check_and_place(self, wanted):
        """All are checked, since some say what others mean; those that differ are put in place."""
        for each in wanted:
            before = content_of(each["path"])
            same = before == each["content"]
            after = each["content"] + ("# with another owner or mode\n" if same else "")
            self.tell(each["path"], before, after)
        if self.dry and not self.may_stage():
            return  # a host that has nothing yet, and nobody who could check
        os.makedirs(self.given["stage"], exist_ok=True)
        stage = tempfile.mkdtemp(prefix=".new-", dir=self.given["stage"])
        try:
            os.chmod(stage, 0o711)  # noqa: S103  a check that runs as the user gets through
            for each in self.given["directories"]:
                os.makedirs(stage + each["path"], exist_ok=True)
            for each in self.given["files"]:
                self.write(stage + each["path"], each)
            for words in self.given["checks"]:
                self.check([str(word).replace("{stage}", stage) for word in words], stage)
            for each in wanted if not self.dry else ():
                self.into_place(stage + each["path"], each["path"])
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    def may_stage(self):
        names = {(each["owner"], each["group"]) for each in self.given["files"]}
        owners = [self.owner({"owner": user, "group": group}) for user, group in names]
        return os.path.isdir(self.given["stage"]) and all(None not in each for each in owners)

    def write(self, path, each):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "w", encoding="utf-8", newline="") as file:
            file.write(each["content"])
            file.flush()
            os.fsync(file.fileno())
        self.owned(path, each)

    def check(self, words, stage):
        if self.dry and words[0].startswith("/") and not os.path.exists(words[0]):
            return  # it comes with the release
        user = self.given["user"]
        if user and user != "root" and os.geteuid() == 0:
            words = ["setpriv", "--reuid", user, "--regid", user, "--init-groups", *words]
        code, said, wrong = self.module.run_command(words, cwd="/")
        if code:
            why = (wrong.strip() or said.strip() or f"exit code {code}")[-_LAST_WORDS:]
            self.module.fail_json(msg=f"nothing was replaced: {why.replace(stage, '')}")

    def into_place(self, new, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.stat(new).st_dev != os.stat(os.path.dirname(path)).st_dev:
            # Another file system: copied there first, so that the rename is one.
            beside = os.path.join(os.path.dirname(path), f".new-{os.path.basename(path)}")
            found = os.stat(new)
            shutil.copy2(new, beside)
            os.chown(beside, found.st_uid, found.st_gid)
            new = beside
        os.replace(new, path)
        opened = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)

    def tell(self, place, before, after):
        self.places.append(place)
        headers = {"before_header": place, "after_header": place}
        self.diffs.append({"before": before or "", "after": after, **headers})


def number(find, name):
    """A user's or group's; None where there is none."""
    try:
        return find(name)[2]
    except KeyError:
        return None


def attributes(path):
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid


def content_of(path):
    """None where there is none, or no text."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode) or os.lstat(path).st_size > _MOST_BYTES:
            return None
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None


def main():
    def several(mode, **more):
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
            "directories": several("0755"),
            "files": several("0644", content={"type": "str", "default": ""}),
            "absent": {"type": "list", "elements": "path", "default": []},
            "stage": {"type": "path", "default": "/etc/penstock"},
            "checks": {"type": "list", "elements": "list", "default": []},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)
    try:
        Placing(module).all()
    except OSError as error:
        module.fail_json(msg=f"{error.filename or ''}: {error.strerror or error}".lstrip(": "))


if __name__ == "__main__":
    main()

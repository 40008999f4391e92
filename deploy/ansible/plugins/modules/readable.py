#!/usr/bin/python
"""The right to read an application's logs, and those that will be written, for the agent's user.

By ACL: each file and directory below is readable, and a default entry of each directory makes what
is created there readable as well. Entries are set as the kernel has them (the extended attributes
`system.posix_acl_access` and `_default`), so the host needs no `setfacl`. Symbolic links are not
followed, and file systems not crossed.

By group: the agent's unit is given the group, in a drop-in of its own. A process has the groups
with which it was started, so an agent that runs without is started again.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import re
import stat
import struct

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: readable
short_description: Lets the agent read an application's logs
description:
  - Sets entries of ACLs below directories, or gives the agent's unit a group.
options:
  name:
    description: The application, after which the drop-in is named.
    type: str
    required: true
  directories:
    description: What becomes readable by ACL, with all below.
    type: list
    elements: path
    default: []
  user: {description: Who reads., type: str, default: penstock-agent}
  group: {description: "The group whose logs they are, in place of ACLs.", type: str, default: ""}
  unit: {description: The agent's unit., type: str, default: penstock-agent.service}
  units: {description: Where drop-ins of units are., type: path, default: /etc/systemd/system}
  state: {description: Whether it may., type: str, choices: [present, absent], default: present}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: The shop's logs
  penstock.pipeline.readable:
    name: shop
    directories: [/var/log/shop]
"""

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
_VERSION = 2
_ENTRY = struct.Struct("<HHI")
_USER_OBJ, _USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 1, 2, 4, 8, 16, 32
_NOBODY = 0xFFFFFFFF
_READ, _SEARCH = 4, 1
_MOST = 100_000  # files and directories below those that are named
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


def entries(raw, mode):
    """{(tag, id): permissions}, of an ACL or else of the mode."""
    if raw is None:
        owner, group, other = mode >> 6 & 7, mode >> 3 & 7, mode & 7
        return {(_USER_OBJ, _NOBODY): owner, (_GROUP_OBJ, _NOBODY): group, (_OTHER, _NOBODY): other}
    found = _ENTRY.iter_unpack(raw[4:])
    return {(tag, who): permissions for tag, permissions, who in found}


def packed(acl):
    rows = (_ENTRY.pack(tag, permissions, who) for (tag, who), permissions in sorted(acl.items()))
    return struct.pack("<I", _VERSION) + b"".join(rows)


def granted(acl, user, permissions):
    """The same ACL, with an entry for the user that counts: the mask lets it through."""
    new = {**acl, (_USER, user): acl.get((_USER, user), 0) | permissions}
    if (_MASK, _NOBODY) not in acl:
        new[_MASK, _NOBODY] = acl[_GROUP_OBJ, _NOBODY]
    new[_MASK, _NOBODY] |= permissions
    return new


def withdrawn(acl, user):
    return {key: value for key, value in acl.items() if key != (_USER, user)}


class Readable:
    def __init__(self, module):
        self.module = module
        self.given = module.params
        self.present = self.given["state"] == "present"
        self.changed = []

    def all(self):
        if self.given["directories"]:
            try:
                user = pwd.getpwnam(self.given["user"]).pw_uid
            except KeyError:
                if not self.module.check_mode:
                    self.module.fail_json(msg=f"there is no user {self.given['user']} here")
                self.module.exit_json(changed=True)
            for each in self.given["directories"]:
                self.below(each, user)
        self.by_group()
        shown = "".join(f"{each}\n" for each in self.changed[:100])
        self.module.exit_json(
            changed=bool(self.changed),
            places=self.changed[:100],
            diff={"before": "", "after": shown},
        )

    def below(self, top, user):
        if not os.path.isdir(top):
            if self.present:
                self.module.fail_json(msg=f"{top} is no directory: make it first")
            return
        device = os.lstat(top).st_dev
        seen = 0
        for above, directories, files in os.walk(top):
            directories[:] = [each for each in directories if same(above, each, device)]
            for path in [above, *(os.path.join(above, each) for each in files)]:
                seen += 1
                if seen > _MOST:
                    self.module.fail_json(
                        msg=f"more than {_MOST} files are below {top}: name directories that have "
                        "logs alone"
                    )
                self.one(path, user)

    def one(self, path, user):
        try:
            found = os.lstat(path)
            if stat.S_ISDIR(found.st_mode):
                self.entry(path, ACCESS, found.st_mode, user, _READ | _SEARCH)
                self.entry(path, DEFAULT, found.st_mode, user, _READ | _SEARCH)
            elif stat.S_ISREG(found.st_mode):
                self.entry(path, ACCESS, found.st_mode, user, _READ)
        except FileNotFoundError:
            pass  # rotated away meanwhile

    def entry(self, path, kind, mode, user, permissions):
        try:
            raw = os.getxattr(path, kind, follow_symlinks=False)
        except OSError as error:
            if error.errno != errno.ENODATA:
                raise
            raw = None
        if raw is None and not self.present:
            return
        acl = entries(raw, mode)
        new = granted(acl, user, permissions) if self.present else withdrawn(acl, user)
        if new == acl:
            return
        self.changed.append(path)
        if not self.module.check_mode:
            os.setxattr(path, kind, packed(new), follow_symlinks=False)

    def by_group(self):
        """The drop-in, and whether the agent that runs has the group."""
        group = self.given["group"] if self.present else ""
        folder = os.path.join(self.given["units"], f"{self.given['unit']}.d")
        path = os.path.join(folder, f"60-application-{self.given['name']}.conf")
        text = f"# {self.given['name']}\n[Service]\nSupplementaryGroups={group}\n" if group else ""
        try:
            with open(path, encoding="utf-8") as file:
                before = file.read()
        except OSError:
            before = ""
        if group:
            try:
                number = grp.getgrnam(group).gr_gid
            except KeyError:
                self.module.fail_json(msg=f"there is no group {group} here")
        if before != text:
            self.changed.append(path)
            if not self.module.check_mode:
                self.write(folder, path, text)
        elif not group or self.has(number):
            return
        else:
            self.changed.append(self.given["unit"])
        if not self.module.check_mode:
            self.systemctl("daemon-reload")
            self.systemctl("try-restart", self.given["unit"])

    @staticmethod
    def write(folder, path, text):
        if not text:
            os.unlink(path)
            return
        os.makedirs(folder, exist_ok=True)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(f"{path}.new", 0o644)
        os.replace(f"{path}.new", path)

    def has(self, group):
        """Whether the agent has it; one that does not run gets it when it is started."""
        said = self.systemctl("show", "--property=MainPID", "--value", self.given["unit"]).strip()
        try:
            with open(f"/proc/{int(said or 0)}/status", encoding="utf-8") as file:
                lines = file.read().splitlines()
        except OSError:
            return True
        groups = [line.split()[1:] for line in lines if line.startswith("Groups:")]
        return not groups or str(group) in groups[0]

    def systemctl(self, *words):
        code, said, wrong = self.module.run_command(["systemctl", *words])
        if code:
            self.module.fail_json(msg=f"systemctl {' '.join(words)}: {wrong.strip()}")
        return said


def same(above, name, device):
    """Whether a directory is on the file system of that above, and no link."""
    try:
        found = os.lstat(os.path.join(above, name))
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_dev == device


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "directories": {"type": "list", "elements": "path", "default": []},
            "user": {"type": "str", "default": "penstock-agent"},
            "group": {"type": "str", "default": ""},
            "unit": {"type": "str", "default": "penstock-agent.service"},
            "units": {"type": "path", "default": "/etc/systemd/system"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    if not _NAME.fullmatch(module.params["name"]):
        module.fail_json(msg=f"{module.params['name']} is no application's name: a-z, 0-9, _ . -")
    try:
        Readable(module).all()
    except OSError as error:
        unable = error.errno in {errno.EOPNOTSUPP, errno.ENOTSUP}
        why = "its file system has no ACLs: give a group" if unable else error.strerror or error
        module.fail_json(msg=f"{error.filename}: {why}")


if __name__ == "__main__":
    main()

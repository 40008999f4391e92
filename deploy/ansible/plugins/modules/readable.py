#!/usr/bin/python
"""The right to read an application's logs, and those that will be written, for the agent's user.

By ACL: each file and directory below is readable, and a default entry of each directory makes what
is created there readable as well. Entries are set as the kernel has them (the extended attributes
`system.posix_acl_access` and `_default`), so the host needs no `setfacl`. Symbolic links are not
followed, and file systems not crossed. Nobody else may do more, or less, than before.

By group: the agent's unit is given the group, in a drop-in of its own. A process has the groups
with which it was started, so an agent that runs without is started again.

What was given by ACL is written down before it is given, a file for each application: to whom,
below which directories, and what was there before that looks the same, which is all that cannot be
told from it afterwards: an entry that the user had already, a directory that had a default ACL.
So it can be taken back where nobody says any more what it was, and what others gave stays. What has
been created meanwhile is judged by the directory that it was created in, from which it has its
entries. Directories that another application has been given as well are left to that one.
"""

from __future__ import annotations

import errno
import grp
import json
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
  every:
    description: In place of a name, all applications that were given anything by ACL. Only absent.
    type: bool
    default: false
  directories:
    description: What becomes readable by ACL, with all below.
    type: list
    elements: path
    default: []
  user: {description: Who reads., type: str, default: penstock-agent}
  group: {description: "The group whose logs they are, in place of ACLs.", type: str, default: ""}
  unit: {description: The agent's unit., type: str, default: penstock-agent.service}
  units: {description: Where drop-ins of units are., type: path, default: /etc/systemd/system}
  records:
    description: Where it is written down what was given by ACL.
    type: path
    default: /etc/penstock/readable
  state: {description: Whether it may., type: str, choices: [present, absent], default: present}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: The shop's logs
  penstock.pipeline.readable:
    name: shop
    directories: [/var/log/shop]

- name: As if nothing had ever been given
  penstock.pipeline.readable:
    every: true
    state: absent
"""

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
_VERSION = 2
_ENTRY = struct.Struct("<HHI")
_USER_OBJ, _USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 1, 2, 4, 8, 16, 32
_NOBODY = 0xFFFFFFFF
_READ, _SEARCH = 4, 1
_MOST = 100_000  # files and directories below those that are named
_LEAST = 3  # entries of an ACL that says no more than a mode
_MASK_OF_ALL, _GROUP_OF_OWNER = (_MASK, _NOBODY), (_GROUP_OBJ, _NOBODY)
_MASKED = (_USER, _GROUP_OBJ, _GROUP)
_HAS_NONE = (errno.EOPNOTSUPP, errno.ENOTSUP)
_RECORD = ".json"
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
    """The same ACL, with an entry for the user that counts: the mask lets it through. What it let
    through of others stays what it is."""
    mask = acl.get(_MASK_OF_ALL, acl[_GROUP_OF_OWNER])
    new = dict(acl)
    if permissions & ~mask and _MASK_OF_ALL in acl:
        new.update((key, value & mask) for key, value in acl.items() if key[0] in _MASKED)
    new[_USER, user] = new.get((_USER, user), 0) | permissions
    new[_MASK_OF_ALL] = mask | permissions
    return new


def withdrawn(acl, user, left):
    """The same ACL, with what is left of the user's entry: permissions, or None for no entry. A
    mask goes with the last entry that it was for."""
    new = {key: value for key, value in acl.items() if key != (_USER, user)}
    if left is not None:
        new[_USER, user] = left
    if _MASK_OF_ALL in new and not any(tag in {_USER, _GROUP} for tag, _ in new):
        new[_GROUP_OF_OWNER] &= new.pop(_MASK_OF_ALL)
    return new


def effective(acl, user):
    """What the user may by an entry of its own; None without one."""
    if (_USER, user) not in acl:
        return None
    return acl[_USER, user] & acl.get(_MASK_OF_ALL, 7)


class Records:
    """What was given to whom, by application:

    {"uid": 998, "directories": {"/var/log/shop": {PATH: {"access": 4, "default": null}}}}

    For each directory that was named, what there was below when it was first given: what the user
    might by an entry (`access`; null where it had none, and the directory's default has one), and
    by default ACLs (`default`; null where one was there without the user).
    """

    def __init__(self, folder):
        self.folder = folder
        self.of = {}
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if name.endswith(_RECORD):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    self.of[name[: -len(_RECORD)]] = json.load(file)

    def write(self, name, record):
        """Or forget it, if it has no directories."""
        path = os.path.join(self.folder, name + _RECORD)
        if record["directories"]:
            os.makedirs(self.folder, mode=0o755, exist_ok=True)
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                json.dump(record, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(f"{path}.new", path)
        elif os.path.exists(path):
            os.unlink(path)
            if not os.listdir(self.folder):
                os.rmdir(self.folder)

    def others(self, name, uid):
        """{directory: what there was} of all other applications."""
        found = {}
        for each, record in self.of.items():
            if each != name and record["uid"] == uid:
                found.update(record["directories"])
        return found


class Readable:
    def __init__(self, module):
        self.module = module
        self.given = module.params
        self.present = self.given["state"] == "present"
        self.changed = []
        self.records = Records(self.given["records"])

    def all(self):
        if self.given["every"]:
            for name in sorted(self.records.of):
                self.by_acl(name, [])
        else:
            named = [os.path.normpath(each) for each in self.given["directories"]]
            self.by_acl(self.given["name"], named)
            self.by_group()
        shown = "".join(f"{each}\n" for each in self.changed[:100])
        self.module.exit_json(
            changed=bool(self.changed),
            places=self.changed[:100],
            diff={"before": "", "after": shown},
        )

    def by_acl(self, name, named):
        """What is named is given, or taken; what was given and is not named any more is taken."""
        record = self.records.of.get(name) or {"uid": None, "directories": {}}
        wanted = list(named) if self.present else []
        uid = self.uid() if named else record["uid"]
        had = dict(record["directories"])
        stays = {top: had[top] for top in wanted if top in had and record["uid"] == uid}
        goes = {top: before for top, before in had.items() if top not in stays}
        for top, before in goes.items():
            self.take(
                top, before, record["uid"], [*self.records.others(name, record["uid"]), *stays]
            )
        if not self.present:
            for top in named:
                if top not in had:  # given by somebody who wrote nothing down
                    self.take(top, {}, uid, self.records.others(name, uid))
        known = {**self.records.others(name, uid), **stays}
        for top in wanted:
            if os.path.islink(top) or not os.path.isdir(top):
                self.module.fail_json(
                    msg=f"{top} is not a directory: create it first; links are not followed"
                )
        new = {top: stays[top] if top in stays else self.seen(top, uid, known) for top in wanted}
        self.records.of[name] = {"uid": uid, "directories": new}
        if self.records.of[name] != record and not self.module.check_mode:
            self.records.write(name, self.records.of[name])
        for top in wanted:
            for path, is_directory in self.places(top):
                self.give(path, is_directory, uid)
        if not new:
            del self.records.of[name]

    def uid(self):
        try:
            return pwd.getpwnam(self.given["user"]).pw_uid
        except KeyError:
            if not self.module.check_mode:
                self.module.fail_json(msg=f"this host has no user {self.given['user']}")
            self.module.exit_json(changed=True)

    def places(self, top, without=()):
        """Each directory and file below, but for those below others; a directory comes first."""
        device = os.lstat(top).st_dev
        for above, directories, files in os.walk(top):
            directories[:] = [
                each
                for each in directories
                if same(above, each, device) and os.path.join(above, each) not in without
            ]
            yield above, True
            for each in files:
                path = os.path.join(above, each)
                try:
                    if stat.S_ISREG(os.lstat(path).st_mode):
                        yield path, False
                except FileNotFoundError:
                    pass  # rotated away meanwhile

    def seen(self, top, uid, known):
        """What cannot be told from what will be given, by path."""
        found = {}
        theirs = set()  # directories in which what is created can be read anyway
        for number, (path, is_directory) in enumerate(self.places(top)):
            if number >= _MOST:
                self.module.fail_json(
                    msg=f"more than {_MOST} files are below {top}: name directories that have "
                    "logs alone"
                )
            inside = [each for each in known if is_below(path, each)]
            if inside:
                before = known[max(inside, key=len)].get(path, {})
            else:
                before = {}
                access = self.acl(path, ACCESS) or {}
                default = self.acl(path, DEFAULT) if is_directory else None
                if (_USER, uid) in access or os.path.dirname(path) in theirs:
                    before["access"] = effective(access, uid)
                if default is not None:
                    before["default"] = effective(default, uid)
                    theirs.update([path] if (_USER, uid) in default else [])
            if before:
                found[path] = before
        return found

    def give(self, path, is_directory, uid):
        permissions = _READ | _SEARCH if is_directory else _READ
        for kind in (ACCESS, DEFAULT) if is_directory else (ACCESS,):
            acl = self.acl(path, kind) or self.by_mode(path)
            if acl is not None:
                self.set(path, kind, acl, granted(acl, uid, permissions))

    def take(self, top, before, uid, others):
        """All below that was given, or came from what was given."""
        if (
            os.path.islink(top)
            or not os.path.isdir(top)
            or any(is_below(top, each) for each in others)
        ):
            return
        defaults = {}  # of directories, as they are then
        for path, is_directory in self.places(top, others):
            above = defaults.get(os.path.dirname(path)) if path != top else None
            inherited = None if above is None else effective(above, uid)
            was = before.get(path, {})
            access = self.acl(path, ACCESS)
            theirs = inherited is not None and "access" not in was
            if access is not None and (_USER, uid) in access and not theirs:
                self.set(path, ACCESS, access, withdrawn(access, uid, was.get("access")))
            default = self.acl(path, DEFAULT) if is_directory else None
            if default is not None and (_USER, uid) in default:
                new = withdrawn(default, uid, was.get("default", inherited))
                has_one = "default" in was or above is not None or len(new) > _LEAST
                new = new if has_one else None
                self.set(path, DEFAULT, default, new)
                default = new
            defaults[path] = default

    def acl(self, path, kind):
        """None where there is none, and for a file that was rotated away."""
        try:
            return entries(os.getxattr(path, kind, follow_symlinks=False), 0)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ENODATA or (error.errno in _HAS_NONE and not self.present):
                return None
            raise

    @staticmethod
    def by_mode(path):
        try:
            return entries(None, os.lstat(path).st_mode)
        except FileNotFoundError:
            return None

    def set(self, path, kind, acl, new):
        if new == acl:
            return
        self.changed.append(path)
        if self.module.check_mode:
            return
        try:
            if new is None:
                os.removexattr(path, kind, follow_symlinks=False)
            else:
                os.setxattr(path, kind, packed(new), follow_symlinks=False)
        except FileNotFoundError:
            pass  # rotated away meanwhile

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
                self.module.fail_json(msg=f"this host has no group {group}")
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


def is_below(path, top):
    """Or is the same."""
    return path == top or path.startswith(os.path.join(top, ""))


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str"},
            "every": {"type": "bool", "default": False},
            "directories": {"type": "list", "elements": "path", "default": []},
            "user": {"type": "str", "default": "penstock-agent"},
            "group": {"type": "str", "default": ""},
            "unit": {"type": "str", "default": "penstock-agent.service"},
            "units": {"type": "path", "default": "/etc/systemd/system"},
            "records": {"type": "path", "default": "/etc/penstock/readable"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        mutually_exclusive=[["name", "every"]],
        required_one_of=[["name", "every"]],
        supports_check_mode=True,
    )
    name, every = module.params["name"], module.params["every"]
    if every and module.params["state"] == "present":
        module.fail_json(msg="`every` needs state: absent")
    if not every and not _NAME.fullmatch(name or ""):
        module.fail_json(msg=f"invalid application name {name!r}: use a-z, 0-9, _, . and -")
    try:
        Readable(module).all()
    except OSError as error:
        unable = error.errno in _HAS_NONE
        why = "its file system has no ACLs: give a group" if unable else error.strerror or error
        module.fail_json(msg=f"{error.filename}: {why}")
    except ValueError as error:
        module.fail_json(msg=f"{module.params['records']}: what was given cannot be read: {error}")


if __name__ == "__main__":
    main()

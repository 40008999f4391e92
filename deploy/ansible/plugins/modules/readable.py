#!/usr/bin/python
"""Grants the agent's user read access to an application's logs, including future files.

By ACL: every file and directory below the application's directories gets an entry for the user, and
every directory a default entry, which new files inherit. The module sets the kernel's extended
attributes (`system.posix_acl_access` and `_default`), so the host needs no `setfacl`. It follows no
symbolic links and crosses no file systems. The rights of all other users stay the same.

By group: a drop-in adds the group to the agent's unit. Groups are set at a process' start, so a
running agent without the group is restarted.

Before granting access by ACL, the module writes a record for the application: the user, the
directories, and what could not be told apart from the grant afterwards, namely existing entries for
the user and existing default ACLs. So access can be revoked when its description is no longer in
the inventory, without removing entries that others set. Files created since then have inherited
their entries, so the default ACL of their directory decides. Directories that another application
also covers keep their entries.
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
short_description: Let the agent read an application's logs
description:
  - Sets ACL entries below directories, or adds a group to the agent's unit.
options:
  name:
    description: The application's name, also part of the drop-in's name.
    type: str
  every:
    description: All applications with grants by ACL, in place of a name. Only with state absent.
    type: bool
    default: false
  directories:
    description: Directories to make readable by ACL, with everything below.
    type: list
    elements: path
    default: []
  user: {description: The agent's user., type: str, default: penstock-agent}
  group: {description: "A group that may read the logs, in place of ACLs.", type: str, default: ""}
  unit: {description: The agent's unit., type: str, default: penstock-agent.service}
  units: {description: The folder of units' drop-ins., type: path, default: /etc/systemd/system}
  records:
    description: The folder of records of grants by ACL.
    type: path
    default: /etc/penstock/readable
  state: {description: Grant or revoke., type: str, choices: [present, absent], default: present}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: Make the shop's logs readable
  penstock.pipeline.readable:
    name: shop
    directories: [/var/log/shop]

- name: Revoke all grants by ACL
  penstock.pipeline.readable:
    every: true
    state: absent
"""

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
_VERSION = 2
_ENTRY = struct.Struct("<HHI")
_USER_OBJ, _USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 1, 2, 4, 8, 16, 32
_NO_ID = 0xFFFFFFFF
_READ, _SEARCH = 4, 1
_MOST_PATHS = 100_000  # below a directory
_MINIMAL_ENTRIES = 3  # of an ACL that is equivalent to a mode
_MASK_KEY, _GROUP_KEY = (_MASK, _NO_ID), (_GROUP_OBJ, _NO_ID)
_MASKED = (_USER, _GROUP_OBJ, _GROUP)
_NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.ENOTSUP)
_RECORD = ".json"
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


def entries(raw, mode):
    """Returns {(tag, id): permissions} of a raw ACL; if there is none, of the file mode."""
    if raw is None:
        owner, group, others = mode >> 6 & 7, mode >> 3 & 7, mode & 7
        return {(_USER_OBJ, _NO_ID): owner, (_GROUP_OBJ, _NO_ID): group, (_OTHER, _NO_ID): others}
    rows = _ENTRY.iter_unpack(raw[4:])
    return {(tag, owner_id): permissions for tag, permissions, owner_id in rows}


def packed(acl):
    rows = (_ENTRY.pack(tag, value, owner_id) for (tag, owner_id), value in sorted(acl.items()))
    return struct.pack("<I", _VERSION) + b"".join(rows)


def granted(acl, user, permissions):
    """Returns the ACL with an effective entry for the user. If that widens the mask, other entries
    are reduced to what the former mask allowed."""
    mask = acl.get(_MASK_KEY, acl[_GROUP_KEY])
    new_acl = dict(acl)
    if permissions & ~mask and _MASK_KEY in acl:
        new_acl.update((key, value & mask) for key, value in acl.items() if key[0] in _MASKED)
    new_acl[_USER, user] = new_acl.get((_USER, user), 0) | permissions
    new_acl[_MASK_KEY] = mask | permissions
    return new_acl


def revoked(acl, user, former):
    """Returns the ACL with the user's entry restored to `former`, or removed if that is None. A
    mask that no entry needs any more is also removed."""
    new_acl = {key: value for key, value in acl.items() if key != (_USER, user)}
    if former is not None:
        new_acl[_USER, user] = former
    if _MASK_KEY in new_acl and not any(tag in {_USER, _GROUP} for tag, _ in new_acl):
        new_acl[_GROUP_KEY] &= new_acl.pop(_MASK_KEY)
    return new_acl


def effective(acl, user):
    """Returns the effective permissions of the user's entry; None if there is no entry."""
    if (_USER, user) not in acl:
        return None
    return acl[_USER, user] & acl.get(_MASK_KEY, 7)


class Records:
    """The grants by application, as JSON files:

    {"uid": 998, "directories": {"/var/log/shop": {PATH: {"access": 4, "default": null}}}}

    For each granted directory, the state of the paths below before the first grant, where it could
    be confused with the grant: the permissions of the user's entry (`access`; null if there was
    none although the parent's default ACL has one), and in the default ACL (`default`; null if it
    had no entry for the user).
    """

    def __init__(self, folder):
        self.folder = folder
        self.by_name = {}
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if name.endswith(_RECORD):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    self.by_name[name[: -len(_RECORD)]] = json.load(file)

    def write(self, name, record):
        """Writes a record, or removes it if it has no directories."""
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
        """Returns {directory: former state} of all other applications."""
        directories = {}
        for other, record in self.by_name.items():
            if other != name and record["uid"] == uid:
                directories.update(record["directories"])
        return directories


class Readable:
    def __init__(self, module):
        self.module = module
        self.params = module.params
        self.present = self.params["state"] == "present"
        self.changed = []
        self.records = Records(self.params["records"])

    def run(self):
        if self.params["every"]:
            for name in sorted(self.records.by_name):
                self.by_acl(name, [])
        else:
            directories = [os.path.normpath(path) for path in self.params["directories"]]
            self.by_acl(self.params["name"], directories)
            self.by_group()
        paths = "".join(f"{path}\n" for path in self.changed[:100])
        self.module.exit_json(
            changed=bool(self.changed),
            places=self.changed[:100],
            diff={"before": "", "after": paths},
        )

    def by_acl(self, name, directories):
        """Grants or revokes access to `directories`. Earlier grants of this application that no
        longer apply are revoked."""
        record = self.records.by_name.get(name) or {"uid": None, "directories": {}}
        tops = list(directories) if self.present else []
        uid = self.uid() if directories else record["uid"]
        states = dict(record["directories"])
        kept_by_top = {top: states[top] for top in tops if top in states and record["uid"] == uid}
        revocations = {top: state for top, state in states.items() if top not in kept_by_top}
        for top, state in revocations.items():
            self.revoke(
                top,
                state,
                record["uid"],
                [*self.records.others(name, record["uid"]), *kept_by_top],
            )
        if not self.present:
            for top in directories:
                if top not in states:  # granted without a record
                    self.revoke(top, {}, uid, self.records.others(name, uid))
        known_tops = {**self.records.others(name, uid), **kept_by_top}
        for top in tops:
            if os.path.islink(top) or not os.path.isdir(top):
                self.module.fail_json(
                    msg=f"{top} is not a directory: create it first; links are not followed"
                )
        new_states = {
            top: kept_by_top[top] if top in kept_by_top else self.state(top, uid, known_tops)
            for top in tops
        }
        self.records.by_name[name] = {"uid": uid, "directories": new_states}
        if self.records.by_name[name] != record and not self.module.check_mode:
            self.records.write(name, self.records.by_name[name])
        for top in tops:
            for path, is_directory in self.paths(top):
                self.grant(path, is_directory, uid)
        if not new_states:
            del self.records.by_name[name]

    def uid(self):
        try:
            return pwd.getpwnam(self.params["user"]).pw_uid
        except KeyError:
            if not self.module.check_mode:
                self.module.fail_json(msg=f"this host has no user {self.params['user']}")
            self.module.exit_json(changed=True)

    def paths(self, top, without=()):
        """Yields (path, is directory) of everything below `top`, parents first, except below the
        directories in `without`."""
        device = os.lstat(top).st_dev
        for parent, directories, files in os.walk(top):
            directories[:] = [
                name
                for name in directories
                if is_on(device, parent, name) and os.path.join(parent, name) not in without
            ]
            yield parent, True
            for name in files:
                path = os.path.join(parent, name)
                try:
                    if stat.S_ISREG(os.lstat(path).st_mode):
                        yield path, False
                except FileNotFoundError:
                    pass  # rotated away in the meantime

    def state(self, top, uid, known):
        """Returns the access before the grant, by path, for paths where it could later be mistaken
        for the grant."""
        states = {}
        readable_directories = set()  # directories whose new files the user can read already
        for index, (path, is_directory) in enumerate(self.paths(top)):
            if index >= _MOST_PATHS:
                self.module.fail_json(
                    msg=f"{top} contains more than {_MOST_PATHS} files: name directories that "
                    "contain only logs"
                )
            parents = [directory for directory in known if is_below(path, directory)]
            if parents:
                before = known[max(parents, key=len)].get(path, {})
            else:
                before = {}
                access = self.acl(path, ACCESS) or {}
                default_acl = self.acl(path, DEFAULT) if is_directory else None
                if (_USER, uid) in access or os.path.dirname(path) in readable_directories:
                    before["access"] = effective(access, uid)
                if default_acl is not None:
                    before["default"] = effective(default_acl, uid)
                    readable_directories.update([path] if (_USER, uid) in default_acl else [])
            if before:
                states[path] = before
        return states

    def grant(self, path, is_directory, uid):
        permissions = _READ | _SEARCH if is_directory else _READ
        for kind in (ACCESS, DEFAULT) if is_directory else (ACCESS,):
            acl = self.acl(path, kind) or self.by_mode(path)
            if acl is not None:
                self.set(path, kind, acl, granted(acl, uid, permissions))

    def revoke(self, top, before, uid, others):
        """Removes the grant's entries below `top`, and those inherited from it."""
        if (
            os.path.islink(top)
            or not os.path.isdir(top)
            or any(is_below(top, other) for other in others)
        ):
            return
        defaults = {}  # the directories' new default ACLs
        for path, is_directory in self.paths(top, others):
            parent = defaults.get(os.path.dirname(path)) if path != top else None
            permissions = None if parent is None else effective(parent, uid)
            old_state = before.get(path, {})
            access = self.acl(path, ACCESS)
            is_foreign = permissions is not None and "access" not in old_state
            if access is not None and (_USER, uid) in access and not is_foreign:
                self.set(path, ACCESS, access, revoked(access, uid, old_state.get("access")))
            default = self.acl(path, DEFAULT) if is_directory else None
            if default is not None and (_USER, uid) in default:
                new_acl = revoked(default, uid, old_state.get("default", permissions))
                has_default = (
                    "default" in old_state or parent is not None or len(new_acl) > _MINIMAL_ENTRIES
                )
                new_acl = new_acl if has_default else None
                self.set(path, DEFAULT, default, new_acl)
                default = new_acl
            defaults[path] = default

    def acl(self, path, kind):
        """Returns the path's ACL; None if it has none, or for a file that was rotated away."""
        try:
            return entries(os.getxattr(path, kind, follow_symlinks=False), 0)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ENODATA or (error.errno in _NOT_SUPPORTED and not self.present):
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
            pass  # rotated away in the meantime

    def by_group(self):
        """Writes or removes the drop-in, and restarts an agent that lacks the group."""
        group = self.params["group"] if self.present else ""
        folder = os.path.join(self.params["units"], f"{self.params['unit']}.d")
        path = os.path.join(folder, f"60-application-{self.params['name']}.conf")
        text = f"# {self.params['name']}\n[Service]\nSupplementaryGroups={group}\n" if group else ""
        try:
            with open(path, encoding="utf-8") as file:
                old_text = file.read()
        except OSError:
            old_text = ""
        if group:
            try:
                gid = grp.getgrnam(group).gr_gid
            except KeyError:
                self.module.fail_json(msg=f"this host has no group {group}")
        if old_text != text:
            self.changed.append(path)
            if not self.module.check_mode:
                self.write(folder, path, text)
        elif not group or self.has_group(gid):
            return
        else:
            self.changed.append(self.params["unit"])
        if not self.module.check_mode:
            self.systemctl("daemon-reload")
            self.systemctl("try-restart", self.params["unit"])

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

    def has_group(self, gid):
        """Whether the agent has the group, or will get it at its next start because it is not
        running."""
        pid = self.systemctl("show", "--property=MainPID", "--value", self.params["unit"]).strip()
        try:
            with open(f"/proc/{int(pid or 0)}/status", encoding="utf-8") as file:
                lines = file.read().splitlines()
        except OSError:
            return True
        groups = [line.split()[1:] for line in lines if line.startswith("Groups:")]
        return not groups or str(gid) in groups[0]

    def systemctl(self, *words):
        exit_code, output, error = self.module.run_command(["systemctl", *words])
        if exit_code:
            self.module.fail_json(msg=f"systemctl {' '.join(words)}: {error.strip()}")
        return output


def is_on(device, parent, name):
    """Whether a directory is on this file system, and not a link."""
    try:
        status = os.lstat(os.path.join(parent, name))
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_dev == device


def is_below(path, top):
    """Whether `path` is below `top`, or equal to it."""
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
    name, grant_every = module.params["name"], module.params["every"]
    if grant_every and module.params["state"] == "present":
        module.fail_json(msg="`every` needs state: absent")
    if not grant_every and not _NAME.fullmatch(name or ""):
        module.fail_json(msg=f"invalid application name {name!r}: use a-z, 0-9, _, . and -")
    try:
        Readable(module).run()
    except OSError as error:
        reason = error.strerror or error
        if error.errno in _NOT_SUPPORTED:
            reason = "the file system does not support ACLs: set `group` instead"
        module.fail_json(msg=f"{error.filename}: {reason}")
    except ValueError as error:
        module.fail_json(msg=f"{module.params['records']}: a record is not valid JSON: {error}")


if __name__ == "__main__":
    main()

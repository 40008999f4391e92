"""What lies on the controller and is to be declared on a host: schemas, and passwords of users.

A password that is not in its directory is made up. It is in NAME.password.next before it is sent,
and in NAME.password once the cluster has it: whoever is interrupted between the two does it again,
with the same password. Files may be encrypted by ansible-vault.
"""

from __future__ import annotations

import os
import re
import secrets

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

MOST_FILES = 5_000
MOST_BYTES = 1 << 20  # of a schema
_SETTINGS = "schemas.yaml"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,200}")
_NEXT = ".next"
_RANDOM_BYTES = 24


class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        given = dict(self._task.args)
        folder = given.get("schemas_dir")
        if given.get("what") == "schemas" and folder:
            given["files"] = schema_files(self._loader.path_dwim(folder))
        waiting = {}
        if given.get("what") == "users":
            waiting = self._passwords(given)
        result = self._execute_module(module_args=given, task_vars=task_vars)
        self._keep(waiting, result)
        return result

    def _passwords(self, given):
        """Fills in `entries` and `passwords`; returns the files that become the real ones if the
        cluster takes what is in them."""
        folder = self._loader.path_dwim(given.get("passwords_dir") or "")
        rotate = {str(each) for each in given.get("rotate") or ()}
        entries, passwords, waiting = [], {}, {}
        for each in given.get("entries") or ():
            entry = dict(each)
            name = str(entry.get("name", ""))
            own = entry.pop("password", None)
            entries.append(entry)
            if entry.get("state", "present") == "absent":
                continue
            if own is not None:
                passwords[name] = str(own)
                continue
            if not given.get("passwords_dir") or not _NAME.fullmatch(name):
                raise AnsibleActionFail(
                    f"user {name!r} has no `password`, and none can be kept in a file of that name"
                )
            path = os.path.join(folder, f"{name}.password")
            there, made = self._read(path), self._read(path + _NEXT)
            if there is not None and made is None and not rotate & {name, "*"}:
                passwords[name] = there
                continue
            entry["renew" if there is not None else "only_new"] = True
            if made is None:
                made = secrets.token_urlsafe(_RANDOM_BYTES)
                if not self._task.check_mode:
                    self._write(path + _NEXT, made, encrypt=given.get("encrypt"))
            elif there is None:
                # Nobody knows whether the cluster took it, before the run was interrupted.
                entry["only_new"], entry["renew"] = False, True
            passwords[name] = made
            waiting[name] = path
        strangers = rotate - {"*"} - {str(each.get("name")) for each in entries}
        if strangers:
            raise AnsibleActionFail(
                f"penstock_users_rotate names undeclared users: {', '.join(strangers)}"
            )
        given["entries"], given["passwords"] = entries, passwords
        return waiting

    def _keep(self, waiting, result):
        if self._task.check_mode:
            return
        items = {each["name"]: each for each in result.get("items") or ()}
        for name, path in waiting.items():
            item = items.get(name, {})
            if item.get("applied"):
                os.replace(path + _NEXT, path)
            elif item.get("outcome") == "refused" and os.path.exists(path + _NEXT):
                # It was made up for somebody who is there: nobody has it.
                os.unlink(path + _NEXT)

    def _read(self, path):
        if not os.path.isfile(path):
            return None
        real = self._loader.get_real_file(path)
        try:
            with open(real, encoding="utf-8") as file:
                return file.read(MOST_BYTES).rstrip("\r\n")
        finally:
            if real != path:
                self._loader.cleanup_tmp_file(real)

    def _write(self, path, password, *, encrypt):
        content = f"{password}\n".encode()
        if encrypt:
            content = self._loader._vault.encrypt(content)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(made, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def schema_files(folder):
    """Contents by path below the folder, as `penstock schemas apply` would take them there."""
    if not os.path.isdir(folder):
        raise AnsibleActionFail(f"there is no folder {folder}")
    found = {}
    root = os.path.realpath(folder)
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(names):
            path = os.path.join(at, name)
            relative = os.path.relpath(path, folder)
            if relative != _SETTINGS and (not name.endswith(".avsc") or name.startswith(".")):
                continue
            if not os.path.realpath(path).startswith(root + os.sep):
                raise AnsibleActionFail(f"{path}: it is a link that leads out of the folder")
            if len(found) >= MOST_FILES:
                raise AnsibleActionFail(f"{folder}: more than {MOST_FILES} files")
            with open(path, "rb") as file:
                content = file.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                raise AnsibleActionFail(f"{path}: more than {MOST_BYTES} bytes")
            try:
                found[relative] = content.decode("utf-8-sig")
            except UnicodeDecodeError:
                raise AnsibleActionFail(f"{path}: not UTF-8") from None
    if not any(name.endswith(".avsc") for name in found):
        raise AnsibleActionFail(f"{folder}: no file is named SUBJECT.avsc")
    return found

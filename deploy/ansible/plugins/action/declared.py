"""Reads the declared schemas and users' passwords from the controller, for the module.

Generates a password for a user who has none. It is written to NAME.password.next before it is sent,
and renamed to NAME.password once the cluster has it, so a run after an interruption sends the same
password. ansible-vault may encrypt the files.
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
        arguments = dict(self._task.args)
        folder = arguments.get("schemas_dir")
        if arguments.get("what") == "schemas" and folder:
            arguments["files"] = schema_files(self._loader.path_dwim(folder))
        new_passwords = {}
        if arguments.get("what") == "users":
            new_passwords = self._passwords(arguments)
        result = self._execute_module(module_args=arguments, task_vars=task_vars)
        self._keep(new_passwords, result)
        return result

    def _passwords(self, arguments):
        """Fills in `entries` and `passwords`. Returns, by user, the password files that `_keep`
        creates once the cluster has accepted the passwords."""
        folder = self._loader.path_dwim(arguments.get("passwords_dir") or "")
        rotations = {str(name) for name in arguments.get("rotate") or ()}
        entries, passwords, new_paths = [], {}, {}
        for declaration in arguments.get("entries") or ():
            entry = dict(declaration)
            name = str(entry.get("name", ""))
            own_password = entry.pop("password", None)
            entries.append(entry)
            if entry.get("state", "present") == "absent":
                continue
            if own_password is not None:
                passwords[name] = str(own_password)
                continue
            if not arguments.get("passwords_dir") or not _NAME.fullmatch(name):
                raise AnsibleActionFail(
                    f"user {name!r} has no `password`: set penstock_users_dir, or, if the "
                    "name is not a valid file name, set the user's `password`"
                )
            path = os.path.join(folder, f"{name}.password")
            password, new_password = self._read(path), self._read(path + _NEXT)
            if password is not None and new_password is None and not rotations & {name, "*"}:
                passwords[name] = password
                continue
            entry["renew" if password is not None else "only_new"] = True
            if new_password is None:
                new_password = secrets.token_urlsafe(_RANDOM_BYTES)
                if not self._task.check_mode:
                    self._write(path + _NEXT, new_password, encrypt=arguments.get("encrypt"))
            elif password is None:
                # An interrupted run may have sent it.
                entry["only_new"], entry["renew"] = False, True
            passwords[name] = new_password
            new_paths[name] = path
        names = rotations - {"*"} - {str(entry.get("name")) for entry in entries}
        if names:
            raise AnsibleActionFail(
                f"penstock_users_rotate names undeclared users: {', '.join(sorted(names))}"
            )
        arguments["entries"], arguments["passwords"] = entries, passwords
        return new_paths

    def _keep(self, waiting, result):
        if self._task.check_mode:
            return
        items = {item["name"]: item for item in result.get("items") or ()}
        for name, path in waiting.items():
            item = items.get(name, {})
            if item.get("applied"):
                os.replace(path + _NEXT, path)
            elif item.get("outcome") == "refused" and os.path.exists(path + _NEXT):
                # The user exists with another password, so the generated one is of no use.
                os.unlink(path + _NEXT)

    def _read(self, path):
        if not os.path.isfile(path):
            return None
        real_path = self._loader.get_real_file(path)
        try:
            with open(real_path, encoding="utf-8") as file:
                return file.read(MOST_BYTES).rstrip("\r\n")
        finally:
            if real_path != path:
                self._loader.cleanup_tmp_file(real_path)

    def _write(self, path, password, *, encrypt):
        content = f"{password}\n".encode()
        if encrypt:
            content = self._loader._vault.encrypt(content)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def schema_files(folder):
    """Returns the contents, by path below the folder, of the files that `penstock schemas apply`
    reads."""
    if not os.path.isdir(folder):
        raise AnsibleActionFail(f"folder {folder} does not exist")
    contents = {}
    root = os.path.realpath(folder)
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = os.path.join(parent, name)
            relative_path = os.path.relpath(path, folder)
            if relative_path != _SETTINGS and (not name.endswith(".avsc") or name.startswith(".")):
                continue
            if not os.path.realpath(path).startswith(root + os.sep):
                raise AnsibleActionFail(f"{path}: the link's target is outside the folder")
            if len(contents) >= MOST_FILES:
                raise AnsibleActionFail(f"{folder}: more than {MOST_FILES} files")
            with open(path, "rb") as file:
                content = file.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                raise AnsibleActionFail(f"{path}: more than {MOST_BYTES} bytes")
            try:
                contents[relative_path] = content.decode("utf-8-sig")
            except UnicodeDecodeError:
                raise AnsibleActionFail(f"{path}: not UTF-8") from None
    if not any(name.endswith(".avsc") for name in contents):
        raise AnsibleActionFail(f"{folder}: no file is named SUBJECT.avsc")
    return contents

#!/usr/bin/python
"""Copies the folder of enrolled keys to a host of the audit, which reads it again when it changes.

A key is never removed: the audit still needs it for what it has signed. Files are replaced by
renames, keys before `revoked`, and a temporary file is none that the audit reads.
"""

from __future__ import annotations

import os
import tempfile

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: keys_folder
short_description: Copy the folder of enrolled keys to a host of the audit
description:
  - Writes files that are missing or differ, and removes none.
options:
  path: {description: The folder., type: path, required: true}
  files:
    description: The content of each file, by its path below the folder.
    type: dict
    required: true
author: The Penstock authors
"""

EXAMPLES = r"""
- name: Write the enrolled keys
  penstock.pipeline.keys_folder:
    path: /etc/penstock/keys
    files: "{{ 'keys' | penstock.pipeline.key_files }}"
"""

RETURN = r"""
names:
  description: The changed files.
  returned: always
  type: list
  elements: str
"""

_MOST_BYTES = 16 << 20
_REVOKED = "revoked"
_FOLDER_MODE = 0o755
_FILE_MODE = 0o644


def changed_files(folder, files):
    """The names of the files that differ, keys before the list of revoked ones."""
    names = sorted(files, key=lambda name: (name == _REVOKED, name))
    return [name for name in names if content_of(os.path.join(folder, name)) != files[name]]


def content_of(path):
    """Returns the file's text; None if it does not exist, or others than root may not read it."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            if os.fstat(file.fileno()).st_mode & _FILE_MODE != _FILE_MODE:
                return None
            return file.read(_MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return None


def make_folder(path):
    if not os.path.isdir(path):
        os.makedirs(path, _FOLDER_MODE)


def write(path, content):
    descriptor, new_path = tempfile.mkstemp(prefix=".new-", dir=os.path.dirname(path))
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(content)
            file.flush()
            os.fchmod(descriptor, _FILE_MODE)
            os.fsync(descriptor)
        os.replace(new_path, path)
    except OSError:
        os.unlink(new_path)
        raise


def sync(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "files": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)
    folder, files = module.params["path"], module.params["files"]
    try:
        names = changed_files(folder, files)
        changed = bool(names) or not os.path.isdir(folder)
        if not module.check_mode:
            make_folder(folder)
            for name in names:
                path = os.path.join(folder, name)
                make_folder(os.path.dirname(path))
                write(path, files[name])
            for parent in sorted({os.path.dirname(os.path.join(folder, name)) for name in names}):
                sync(parent)
            if names:
                sync(folder)
    except OSError as error:
        module.fail_json(msg=f"{error.filename or folder}: {error.strerror or error}")
    module.exit_json(changed=changed, names=names)


if __name__ == "__main__":
    main()

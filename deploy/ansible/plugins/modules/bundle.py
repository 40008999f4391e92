#!/usr/bin/python
"""Installs an agent's release with its own interpreter as /opt/penstock/releases/VERSION.

The archive is unpacked into a temporary directory that is then renamed, so the release is complete
or absent. The link to the current release is not changed here. On a host that is also a server, a
venv of the release that has the agent's packages serves as well, and nothing is unpacked.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import tarfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.penstock.pipeline.plugins.module_utils.releases import (
    IsBusy,
    NoRoom,
    check_room,
    locked,
    put_on_path,
)

DOCUMENTATION = r"""
module: bundle
short_description: Install an agent's release with its own interpreter
description:
  - Sends the release to hosts that lack it. Both sides compare it with its checksum in
    C(penstock-VERSION.SHA256SUMS).
options:
  version: {description: The release's version., type: str, required: true}
  source: {description: The release folder on the controller., type: path, required: true}
  root: {description: The folder of releases on the host., type: path, default: /opt/penstock}
  kept: {description: The number of releases that stay on the host., type: int, default: 2}
  command: {description: "A link on PATH to the command; optional.", type: path}
  archive: {description: "The transferred archive. Internal: set by the action.", type: path}
  sha256: {description: "The archive's checksum. Internal: set by the action.", type: str}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: Install the agent's release
  penstock.pipeline.bundle:
    version: 0.1.0
    source: release
"""

MARKER = "release.json"
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


class Bundle:
    def __init__(self, module):
        self.module = module
        self.root = module.params["root"]
        self.version = module.params["version"]
        self.releases = os.path.join(self.root, "releases")
        self.path = os.path.join(self.releases, self.version)

    def is_installed(self):
        """Whether the release is installed with the agent's packages."""
        try:
            with open(os.path.join(self.path, MARKER), encoding="utf-8") as file:
                marker = json.load(file)
        except (OSError, ValueError):
            return False
        if {"agent", "all"} & set(marker.get("extras", [])):
            return True
        self.module.fail_json(
            msg=f"{self.path} contains other programs ({', '.join(marker.get('extras', []))}), "
            "but no agent. On a server the agent's packages are installed with the server's: is "
            "the host in the server's group in this inventory?"
        )
        return False

    def install(self, archive, sha256):
        digest = hashlib.sha256()
        with open(archive, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
        if digest.hexdigest() != sha256:
            self.module.fail_json(msg="the archive was damaged in transfer; nothing has changed")
        new_directory = os.path.join(self.releases, f".incoming-{self.version}")
        shutil.rmtree(new_directory, ignore_errors=True)  # of an interrupted run
        check_room(self.releases, unpacked_size(archive))
        os.makedirs(new_directory)
        try:
            tree = self.unpack(archive, new_directory)
            # Unlike --version, --help imports everything that an agent needs.
            exit_code, output, error = self.module.run_command(
                [os.path.join(tree, "bin", "penstock"), "agent", "--help"]
            )
            if exit_code:
                reason = error.strip() or output.strip() or f"exit code {exit_code}"
                self.module.fail_json(
                    msg=f"release {self.version} does not run on this host, so it was not "
                    f"installed: {reason[-2000:]}"
                )
            with open(os.path.join(tree, MARKER), "w", encoding="utf-8") as file:
                json.dump({"version": self.version, "extras": ["agent"], "bundle": True}, file)
            os.sync()
            shutil.rmtree(self.path, ignore_errors=True)  # incomplete: it has no marker
            os.rename(tree, self.path)
        finally:
            shutil.rmtree(new_directory, ignore_errors=True)

    def unpack(self, archive, new):
        """Unpacks into `new`, and returns the directory that contains bin/penstock."""
        with tarfile.open(archive) as tar:
            # The checksum is verified; newer Pythons also reject paths that leave the directory.
            options = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
            tar.extractall(new, **options)  # noqa: S202
        members = [os.path.join(new, name) for name in os.listdir(new)]
        tree = members[0] if len(members) == 1 and os.path.isdir(members[0]) else new
        if not os.path.exists(os.path.join(tree, "bin", "penstock")):
            self.module.fail_json(msg=f"release {self.version} has no bin/penstock")
        if os.geteuid() == 0:
            for parent, _folders, files in os.walk(tree):
                for path in [parent, *(os.path.join(parent, name) for name in files)]:
                    os.lchown(path, 0, 0)
        return tree

    def remove_old(self):
        """Removes the oldest releases beyond `kept`, but never this one, the current one, or one
        with running processes."""
        current_version = os.path.basename(os.path.realpath(os.path.join(self.root, "current")))
        kept_versions = {self.version, current_version} | self.running()
        other_versions = [
            os.path.join(self.releases, name)
            for name in os.listdir(self.releases)
            if name not in kept_versions and _VERSION.fullmatch(name)
        ]
        other_versions.sort(key=os.path.getmtime, reverse=True)
        for path in other_versions[max(self.module.params["kept"] - len(kept_versions), 0) :]:
            shutil.rmtree(path, ignore_errors=True)

    def running(self):
        versions = set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                program = os.readlink(f"/proc/{pid}/exe")
            except OSError:
                continue
            if program.startswith(self.releases + os.sep):
                versions.add(program[len(self.releases) + 1 :].split(os.sep)[0])
        return versions


def unpacked_size(archive):
    """Returns the unpacked size, which gzip stores in the last four bytes."""
    with open(archive, "rb") as file:
        file.seek(-4, os.SEEK_END)
        return int.from_bytes(file.read(4), "little")


def main():
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "required": True},
            "source": {"type": "path", "required": True},
            "root": {"type": "path", "default": "/opt/penstock"},
            "kept": {"type": "int", "default": 2},
            "command": {"type": "path"},
            "archive": {"type": "path"},
            "sha256": {"type": "str"},
        },
        supports_check_mode=True,
    )
    params = module.params
    if not _VERSION.fullmatch(params["version"]):
        module.fail_json(msg=f"invalid version {params['version']!r}")
    bundle = Bundle(module)
    is_missing = not bundle.is_installed()
    installs = is_missing and bool(params["archive"]) and not module.check_mode
    try:
        if installs:
            with locked(bundle.releases):
                if not bundle.is_installed():  # another run may have done it
                    bundle.install(params["archive"], params["sha256"])
                    bundle.remove_old()
        links = (installs or not is_missing) and put_on_path(module, bundle.root)
    except (OSError, tarfile.TarError, EOFError, IsBusy, NoRoom) as error:
        module.fail_json(msg=f"cannot install release {params['version']}: {error}")
    module.exit_json(
        changed=installs or links,
        missing=is_missing and not installs,
        machine=platform.machine(),
        path=bundle.path,
        diff={"before": "", "after": f"{bundle.path}\n"} if installs else {},
    )


if __name__ == "__main__":
    main()

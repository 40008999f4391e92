#!/usr/bin/python
"""An agent's release on a host that has no Python for it: /opt/penstock/releases/VERSION.

The archive has an interpreter of its own. It is unpacked beside what is there and renamed, so that
the directory is whole or absent; no link is switched here. Where the release is there already as a
venv with the agent's packages, because the host is a server too, that is taken.
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
    alone,
    check_room,
    put_on_path,
)

DOCUMENTATION = r"""
module: bundle
short_description: An agent's release on a host, with an interpreter of its own
description:
  - Sent to hosts that do not have it, and compared with C(SHA256SUMS) at both ends.
options:
  version: {description: Which release., type: str, required: true}
  source: {description: The release folder on the controller., type: path, required: true}
  root: {description: Where releases are on the host., type: path, default: /opt/penstock}
  kept: {description: How many releases stay on the host., type: int, default: 2}
  command: {description: The link that puts the command on PATH; none without it., type: path}
  archive: {description: What the controller has sent; not for you., type: path}
  sha256: {description: Its sum; not for you., type: str}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: The agent's release
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

    def is_there(self):
        """Whether an agent can be run from what is there."""
        try:
            with open(os.path.join(self.path, MARKER), encoding="utf-8") as file:
                known = json.load(file)
        except (OSError, ValueError):
            return False
        if {"agent", "all"} & set(known.get("extras", [])):
            return True
        self.module.fail_json(
            msg=f"{self.path} was made for other programs ({', '.join(known.get('extras', []))}). "
            "A host that is a server, too, gets the agent's packages into it: is it in the "
            "group of those servers in this inventory?"
        )
        return False

    def install(self, archive, sha256):
        digest = hashlib.sha256()
        with open(archive, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
        if digest.hexdigest() != sha256:
            self.module.fail_json(msg="the archive has come damaged; nothing has changed")
        new = os.path.join(self.releases, f".incoming-{self.version}")
        shutil.rmtree(new, ignore_errors=True)  # of a run that was cut off
        check_room(self.releases, unpacked_size(archive))
        os.makedirs(new)
        try:
            whole = self.unpack(archive, new)
            # Its help imports all that an agent stands on, which its version does not.
            code, said, wrong = self.module.run_command(
                [os.path.join(whole, "bin", "penstock"), "agent", "--help"]
            )
            if code:
                why = wrong.strip() or said.strip() or f"exit code {code}"
                self.module.fail_json(
                    msg=f"release {self.version} does not run on this host, and nothing has "
                    f"changed to it: {why[-2000:]}"
                )
            with open(os.path.join(whole, MARKER), "w", encoding="utf-8") as file:
                json.dump({"version": self.version, "extras": ["agent"], "bundle": True}, file)
            os.sync()
            shutil.rmtree(self.path, ignore_errors=True)  # without a marker: never finished
            os.rename(whole, self.path)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def unpack(self, archive, new):
        """The directory that has bin/penstock."""
        with tarfile.open(archive) as tar:
            # Its sum is known; a Python that knows filters refuses paths outside as well.
            kept = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
            tar.extractall(new, **kept)  # noqa: S202
        inside = [os.path.join(new, each) for each in os.listdir(new)]
        whole = inside[0] if len(inside) == 1 and os.path.isdir(inside[0]) else new
        if not os.path.exists(os.path.join(whole, "bin", "penstock")):
            self.module.fail_json(msg=f"there is no bin/penstock in release {self.version}")
        if os.geteuid() == 0:
            for above, _folders, files in os.walk(whole):
                for each in [above, *(os.path.join(above, name) for name in files)]:
                    os.lchown(each, 0, 0)
        return whole

    def forget_old(self):
        """Beyond those that are kept; never this one, and never one that is current or runs."""
        current = os.path.basename(os.path.realpath(os.path.join(self.root, "current")))
        stay = {self.version, current} | self.running()
        others = [
            os.path.join(self.releases, each)
            for each in os.listdir(self.releases)
            if each not in stay and _VERSION.fullmatch(each)
        ]
        others.sort(key=os.path.getmtime, reverse=True)
        for each in others[max(self.module.params["kept"] - len(stay), 0) :]:
            shutil.rmtree(each, ignore_errors=True)

    def running(self):
        found = set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                program = os.readlink(f"/proc/{pid}/exe")
            except OSError:
                continue
            if program.startswith(self.releases + os.sep):
                found.add(program[len(self.releases) + 1 :].split(os.sep)[0])
        return found


def unpacked_size(archive):
    """As gzip says it at the end."""
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
    given = module.params
    if not _VERSION.fullmatch(given["version"]):
        module.fail_json(msg=f"{given['version']} is no release's version")
    bundle = Bundle(module)
    missing = not bundle.is_there()
    changed = missing and bool(given["archive"]) and not module.check_mode
    try:
        if changed:
            with alone(bundle.releases):
                if not bundle.is_there():  # nobody has brought it meanwhile
                    bundle.install(given["archive"], given["sha256"])
                    bundle.forget_old()
        linked = (changed or not missing) and put_on_path(module, bundle.root)
    except (OSError, tarfile.TarError, EOFError, IsBusy, NoRoom) as error:
        module.fail_json(msg=f"release {given['version']} cannot be unpacked: {error}")
    module.exit_json(
        changed=changed or linked,
        missing=missing and not changed,
        machine=platform.machine(),
        path=bundle.path,
        diff={"before": "", "after": f"{bundle.path}\n"} if changed else {},
    )


if __name__ == "__main__":
    main()

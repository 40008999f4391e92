#!/usr/bin/python
"""A release on a host, in a folder of its own: /opt/penstock/releases/VERSION.

It is a venv without any link to another release. `release.json` in it is written last: a folder
without one was left by somebody who was interrupted, and is made anew. Packages of a further
program are added to what is there, since all programs of a release stand on the same ones.

Where the folder has the agent's bundle already (module bundle), because the host was an agent's
before it became a server, that has a Python of its own, which wheels for the host's do not fit, and
an agent may run from it. So the venv is made within, in `server`, with the agent's packages too;
once it is whole, the commands in `bin` become links into it. Nothing else of the bundle is touched,
and whatever runs from it goes on.

One run at a time installs. What it cannot finish it takes away again, unless programs run from it.

Nothing is fetched: the controller sends an archive with what is needed (the action of the same name
makes it), and pip installs from that alone, by the hashes that are in it.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import tarfile
import zipfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.penstock.pipeline.plugins.module_utils.releases import (
    IsBusy,
    NoRoom,
    alone,
    check_room,
    put_on_path,
)

DOCUMENTATION = r"""
module: release
short_description: A release of Penstock on a host
description:
  - Installs the packages of some programs from a release folder on the controller.
options:
  version: {description: Which release., type: str, required: true}
  source: {description: The release folder on the controller., type: path, required: true}
  extras: {description: For which programs., type: list, elements: str, required: true}
  jars: {description: Whether ZooKeeper's jars come with it., type: bool, default: false}
  root: {description: Where releases are on the host., type: path, default: /opt/penstock}
  python: {description: The interpreter that it stands on., type: path, default: /usr/bin/python3}
  kept: {description: How many releases stay on the host., type: int, default: 2}
  command: {description: The link that puts the command on PATH; none without it., type: path}
  archive: {description: What the controller has sent; not for you., type: path}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: What a broker needs
  penstock.pipeline.release:
    version: 0.1.0
    source: release
    extras: [broker]
"""

MARKER = "release.json"
SERVER = "server"
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_EXTRA = re.compile(r"[a-z][a-z-]{0,39}")
_LEAST = (3, 11)
_LAST_WORDS = 2_000


class Release:
    def __init__(self, module):
        self.module = module
        given = module.params
        self.version = given["version"]
        self.root = given["root"]
        self.path = os.path.join(self.root, "releases", self.version)
        self.wanted = set(given["extras"])
        self.jars = given["jars"]
        known = self.known()
        self.is_bundle = bool(known.get("bundle"))
        self.venv = os.path.join(self.path, SERVER) if self.is_bundle else self.path
        # What a bundle has itself is of no use to a venv.
        self.has = set(known.get("extras", []))
        if self.is_bundle and not known.get(SERVER):
            self.has = set()
            self.wanted.add("agent")
        self.has_jars = bool(known.get("jars"))

    def known(self):
        try:
            with open(os.path.join(self.path, MARKER), encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def missing(self):
        # `all` has every other one.
        return set() if "all" in self.has else self.wanted - self.has

    @property
    def is_whole(self):
        return not self.missing and (self.has_jars or not self.jars)

    def interpreter(self):
        """Of this host: which wheels it takes. Fails where it is too old."""
        code = "import sys, platform; print(*sys.version_info[:2], platform.machine())"
        rc, out, error = self.module.run_command([self.module.params["python"], "-I", "-c", code])
        if rc:
            self.module.fail_json(msg=f"{self.module.params['python']} does not run: {error}")
        major, minor, machine = out.split()
        if (int(major), int(minor)) < _LEAST:
            self.module.fail_json(
                msg=f"{self.module.params['python']} is Python {major}.{minor}, and this program "
                "needs 3.11: name a newer one in penstock_python. Only the agent has an "
                "interpreter of its own"
            )
        return f"{major}{minor}", machine

    def install(self, archive):
        incoming = os.path.join(self.root, "releases", f".incoming-{self.version}")
        shutil.rmtree(incoming, ignore_errors=True)
        unfinished = not self.has
        if unfinished:
            # Nobody runs from it: it was never finished.
            shutil.rmtree(self.venv, ignore_errors=True)
        check_room(os.path.dirname(self.path), room_for(archive))
        os.makedirs(incoming, mode=0o700)
        try:
            self.unpack(archive, incoming)
            if unfinished:
                self.run([self.module.params["python"], "-I", "-m", "venv", "--without-pip"])
            self.pip(incoming)
            if self.jars and not self.has_jars:
                self.take_jars(incoming)
            unfinished = False
            if self.is_bundle:
                self.turn_commands()
            self.mark()
        finally:
            shutil.rmtree(incoming, ignore_errors=True)
            if unfinished:
                shutil.rmtree(self.venv, ignore_errors=True)

    def run(self, command):
        rc, out, error = self.module.run_command([*command, self.venv])
        if rc:
            self.module.fail_json(msg=f"the venv cannot be made: {(error or out)[-_LAST_WORDS:]}")

    @staticmethod
    def unpack(archive, directory):
        with tarfile.open(archive) as tar:
            for member in tar:
                name = os.path.basename(member.name)
                folder = os.path.dirname(member.name)
                if not member.isfile() or folder not in {"", "jars"} or name.startswith("."):
                    continue
                os.makedirs(os.path.join(directory, folder), exist_ok=True)
                content = tar.extractfile(member)
                with open(os.path.join(directory, folder, name), "wb") as file:
                    shutil.copyfileobj(content, file, 1 << 20)

    def pip(self, incoming):
        """By the pip that came along, or that of the host."""
        python = os.path.join(self.venv, "bin", "python3")
        brought = sorted(glob.glob(os.path.join(incoming, "pip-*.whl")))
        environment = {
            "PIP_CONFIG_FILE": os.devnull,
            "PYTHONDONTWRITEBYTECODE": "",
            "HOME": incoming,
        }
        if brought:
            pip = [python, "-I", os.path.join(brought[-1], "pip")]
        else:
            rc, _out, _error = self.module.run_command([python, "-m", "pip", "--version"])
            if rc:
                rc, out, error = self.module.run_command([python, "-m", "ensurepip"])
                if rc:
                    self.module.fail_json(
                        msg="there is no pip: apt install python3-venv on this host, or bring a "
                        f"pip-*.whl in the wheelhouse. {(error or out)[-_LAST_WORDS:]}"
                    )
            pip = [python, "-I", "-m", "pip"]
        for extra in sorted(self.missing):
            command = [
                *pip,
                "install",
                *("--no-index", "--no-cache-dir", "--disable-pip-version-check", "--quiet"),
                *("--find-links", incoming, "--require-hashes", "--only-binary", ":all:"),
                *("--requirement", os.path.join(incoming, f"requirements-{extra}.txt")),
            ]
            rc, out, error = self.module.run_command(command, environ_update=environment)
            if rc:
                self.module.fail_json(
                    msg=f"the packages of {extra} in release {self.version} cannot be installed, "
                    "and nothing on this host has changed to it: " + (error or out)[-_LAST_WORDS:]
                )

    def take_jars(self, incoming):
        to = os.path.join(self.path, "jars")
        shutil.rmtree(to, ignore_errors=True)
        shutil.move(os.path.join(incoming, "jars"), to)

    def turn_commands(self):
        """Each by a rename. An interpreter finds its packages by where it is called, so `python3`
        stays the bundle's; the venv's is server/bin/python3."""
        for name in os.listdir(os.path.join(self.venv, "bin")):
            if name.startswith(("python", "activate", "Activate")):
                continue
            new = os.path.join(self.path, "bin", f".{name}.new")
            if os.path.lexists(new):
                os.unlink(new)
            os.symlink(os.path.join("..", SERVER, "bin", name), new)
            os.rename(new, os.path.join(self.path, "bin", name))

    def mark(self):
        known = {
            "version": self.version,
            "extras": sorted(self.has | self.wanted),
            "jars": self.has_jars or self.jars,
        }
        if self.is_bundle:
            known |= {"bundle": True, SERVER: True}
        marker = os.path.join(self.path, MARKER)
        with open(marker + ".new", "w", encoding="utf-8") as file:
            json.dump(known, file, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(marker + ".new", 0o644)
        os.rename(marker + ".new", marker)

    def forget_old(self):
        """Releases beyond those that are kept, unless one is current or something runs from it."""
        releases = os.path.join(self.root, "releases")
        current = os.path.basename(os.path.realpath(os.path.join(self.root, "current")))
        stay = {self.version, current} | running_releases(releases)
        by_age = sorted(
            (each for each in os.listdir(releases) if not each.startswith(".")),
            key=lambda name: mtime(os.path.join(releases, name, MARKER)),
            reverse=True,
        )
        room = self.module.params["kept"] - len(stay.intersection(by_age))
        gone = []
        for name in by_age:
            if name in stay:
                continue
            room -= 1
            if room < 0:
                shutil.rmtree(os.path.join(releases, name), ignore_errors=True)
                gone.append(name)
        return gone


def room_for(archive):
    """At most: what comes, and what pip unpacks and compiles."""
    needed = 0
    with tarfile.open(archive) as tar:
        for member in tar:
            needed += member.size
            if member.name.endswith(".whl"):
                try:
                    with zipfile.ZipFile(tar.extractfile(member)) as wheel:
                        needed += sum(each.file_size for each in wheel.infolist()) * 3 // 2
                except zipfile.BadZipFile:
                    pass  # pip says what is wrong with it
    return needed


def mtime(path):
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def running_releases(releases):
    """From which of them processes run, by their interpreter or its name."""
    found = set()
    prefix = os.path.realpath(releases) + "/"
    for process in glob.glob("/proc/[0-9]*"):
        named = []
        try:
            with open(process + "/cmdline", "rb") as file:
                named.append(os.fsdecode(file.read(4096).split(b"\0")[0]))
            named.append(os.readlink(process + "/exe"))
        except OSError:
            pass
        found |= {each[len(prefix) :].split("/")[0] for each in named if each.startswith(prefix)}
    return found


def main():
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "required": True},
            "source": {"type": "path", "required": True},
            "extras": {"type": "list", "elements": "str", "required": True},
            "jars": {"type": "bool", "default": False},
            "root": {"type": "path", "default": "/opt/penstock"},
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "kept": {"type": "int", "default": 2},
            "command": {"type": "path"},
            "archive": {"type": "path"},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)
    if not _VERSION.fullmatch(module.params["version"]):
        module.fail_json(msg="version: letters, digits, ., _, + and - only")
    if wrong := [each for each in module.params["extras"] if not _EXTRA.fullmatch(each)]:
        module.fail_json(msg=f"extras: {wrong[0]!r} is none")
    try:
        module.exit_json(**result_of(module))
    except (OSError, tarfile.TarError, IsBusy, NoRoom) as error:
        module.fail_json(
            msg=f"release {module.params['version']} is not installed, and nothing on this host "
            f"has changed to it: {error}"
        )


def result_of(module):
    archive = module.params["archive"]
    release = Release(module)
    if archive is None or module.check_mode:
        result = asked(release)
        if release.is_whole:
            result["changed"] |= put_on_path(module, release.root)
        return result
    with alone(os.path.join(release.root, "releases")):
        # Somebody else may have done it meanwhile.
        release = Release(module)
        result = asked(release)
        if not release.is_whole:
            release.install(archive)
            result["forgotten"] = release.forget_old()
    put_on_path(module, release.root)
    return result


def asked(release):
    """What it is and is to be, and what the action must send."""
    result = {"changed": not release.is_whole, "path": release.path, "missing": []}
    if not release.is_whole:
        result["diff"] = {
            "before": {"extras": sorted(release.has), "jars": release.has_jars},
            "after": {
                "extras": sorted(release.has | release.missing),
                "jars": release.has_jars or release.jars,
            },
            "before_header": release.path,
            "after_header": release.path,
        }
        if release.module.params["archive"] is None:
            result["python"], result["machine"] = release.interpreter()
            result["missing"] = sorted(release.missing)
            result["needs_jars"] = release.jars and not release.has_jars
    return result


if __name__ == "__main__":
    main()

#!/usr/bin/python
"""Installs a release as a venv in /opt/penstock/releases/VERSION.

The venv shares no files with other releases. `release.json` is written last: a folder without it is
incomplete, after an interrupted run, and is replaced. The packages of another program are added to
an existing venv, since all programs of a release use the same versions.

If the folder already contains the agent's bundle (module `bundle`), because an agent's host becomes
a server, the wheels do not fit the bundle's Python, and an agent may be running from it. So the
venv, including the agent's packages, is created in `server` within the folder, and then the
commands in `bin` become links to it. The rest of the bundle stays, and its processes keep running.

One run installs at a time. If it fails, it removes a new venv, but never one that was complete.

Nothing is downloaded: the action of the same name sends an archive with the wheels, and pip
installs from it alone, with verified hashes.
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
    check_room,
    locked,
    put_on_path,
)

DOCUMENTATION = r"""
module: release
short_description: Install a release of Penstock
description:
  - Installs programs' packages from a release folder on the controller.
options:
  version: {description: The release's version., type: str, required: true}
  source: {description: The release folder on the controller., type: path, required: true}
  extras: {description: The programs to install., type: list, elements: str, required: true}
  jars: {description: Whether to install ZooKeeper's jars., type: bool, default: false}
  root: {description: The folder of releases on the host., type: path, default: /opt/penstock}
  python: {description: The interpreter of the venv., type: path, default: /usr/bin/python3}
  kept: {description: The number of releases that stay on the host., type: int, default: 2}
  command: {description: "A link on PATH to the command; optional.", type: path}
  archive: {description: "The transferred archive. Internal: set by the action.", type: path}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: Install a broker's packages
  penstock.pipeline.release:
    version: 0.1.0
    source: release
    extras: [broker]
"""

MARKER = "release.json"
SERVER = "server"
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_EXTRA = re.compile(r"[a-z][a-z-]{0,39}")
_OLDEST_PYTHON = (3, 11)
_SHOWN_OUTPUT = 2_000


class Release:
    def __init__(self, module):
        self.module = module
        params = module.params
        self.version = params["version"]
        self.root = params["root"]
        self.path = os.path.join(self.root, "releases", self.version)
        self.wanted = set(params["extras"])
        self.jars = params["jars"]
        marker = self.marker()
        self.is_bundle = bool(marker.get("bundle"))
        self.venv = os.path.join(self.path, SERVER) if self.is_bundle else self.path
        # A venv cannot use the packages of the bundle itself.
        self.has = set(marker.get("extras", []))
        if self.is_bundle and not marker.get(SERVER):
            self.has = set()
            self.wanted.add("agent")
        self.has_jars = bool(marker.get("jars"))

    def marker(self):
        try:
            with open(os.path.join(self.path, MARKER), encoding="utf-8") as file:
                content = json.load(file)
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    @property
    def missing(self):
        # `all` includes every other extra.
        return set() if "all" in self.has else self.wanted - self.has

    @property
    def is_whole(self):
        return not self.missing and (self.has_jars or not self.jars)

    def interpreter(self):
        """Returns the host's Python version ("311") and processor. Fails if the version is too
        old."""
        code = "import sys, platform; print(*sys.version_info[:2], platform.machine())"
        status, output, error = self.module.run_command(
            [self.module.params["python"], "-I", "-c", code]
        )
        if status:
            self.module.fail_json(msg=f"{self.module.params['python']} does not run: {error}")
        major, minor, machine = output.split()
        if (int(major), int(minor)) < _OLDEST_PYTHON:
            self.module.fail_json(
                msg=f"{self.module.params['python']} is Python {major}.{minor}, and servers need "
                "3.11 or later: set penstock_python to a newer one. Only the agent comes with an "
                "interpreter"
            )
        return f"{major}{minor}", machine

    def install(self, archive):
        incoming_directory = os.path.join(self.root, "releases", f".incoming-{self.version}")
        shutil.rmtree(incoming_directory, ignore_errors=True)
        is_unfinished = not self.has
        if is_unfinished:
            # Without a marker no program runs from it.
            shutil.rmtree(self.venv, ignore_errors=True)
        check_room(os.path.dirname(self.path), room_for(archive))
        os.makedirs(incoming_directory, mode=0o700)
        try:
            self.unpack(archive, incoming_directory)
            if is_unfinished:
                self.run([self.module.params["python"], "-I", "-m", "venv", "--without-pip"])
            self.pip(incoming_directory)
            if self.jars and not self.has_jars:
                self.take_jars(incoming_directory)
            is_unfinished = False
            if self.is_bundle:
                self.link_commands()
            self.write_marker()
        finally:
            shutil.rmtree(incoming_directory, ignore_errors=True)
            if is_unfinished:
                shutil.rmtree(self.venv, ignore_errors=True)

    def run(self, command):
        rc, out, error = self.module.run_command([*command, self.venv])
        if rc:
            self.module.fail_json(msg=f"cannot create the venv: {(error or out)[-_SHOWN_OUTPUT:]}")

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
        """Installs the missing packages, with pip from the archive or else from the host."""
        python = os.path.join(self.venv, "bin", "python3")
        wheels = sorted(glob.glob(os.path.join(incoming, "pip-*.whl")))
        environment = {
            "PIP_CONFIG_FILE": os.devnull,
            "PYTHONDONTWRITEBYTECODE": "",
            "HOME": incoming,
        }
        if wheels:
            pip = [python, "-I", os.path.join(wheels[-1], "pip")]
        else:
            exit_code, _output, _error = self.module.run_command([python, "-m", "pip", "--version"])
            if exit_code:
                exit_code, out, error = self.module.run_command([python, "-m", "ensurepip"])
                if exit_code:
                    self.module.fail_json(
                        msg="this host has no pip: apt install python3-venv, or use a release "
                        f"whose wheelhouse contains pip-*.whl. {(error or out)[-_SHOWN_OUTPUT:]}"
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
            exit_code, out, error = self.module.run_command(command, environ_update=environment)
            if exit_code:
                self.module.fail_json(
                    msg=f"cannot install the packages of {extra} in release {self.version}, and "
                    "programs on this host are unchanged: " + (error or out)[-_SHOWN_OUTPUT:]
                )

    def take_jars(self, incoming):
        target = os.path.join(self.path, "jars")
        shutil.rmtree(target, ignore_errors=True)
        shutil.move(os.path.join(incoming, "jars"), target)

    def link_commands(self):
        """Replaces the bundle's commands with links to the venv's, by renames. `bin/python3` stays
        the bundle's: an interpreter finds its packages by its path."""
        for name in os.listdir(os.path.join(self.venv, "bin")):
            if name.startswith(("python", "activate", "Activate")):
                continue
            new_link = os.path.join(self.path, "bin", f".{name}.new")
            if os.path.lexists(new_link):
                os.unlink(new_link)
            os.symlink(os.path.join("..", SERVER, "bin", name), new_link)
            os.rename(new_link, os.path.join(self.path, "bin", name))

    def write_marker(self):
        content = {
            "version": self.version,
            "extras": sorted(self.has | self.wanted),
            "jars": self.has_jars or self.jars,
        }
        if self.is_bundle:
            content |= {"bundle": True, SERVER: True}
        marker = os.path.join(self.path, MARKER)
        with open(marker + ".new", "w", encoding="utf-8") as file:
            json.dump(content, file, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(marker + ".new", 0o644)
        os.rename(marker + ".new", marker)

    def remove_old(self):
        """Removes the oldest releases beyond `kept`, except the current one and those with running
        processes; returns the removed versions."""
        releases = os.path.join(self.root, "releases")
        current_version = os.path.basename(os.path.realpath(os.path.join(self.root, "current")))
        kept_versions = {self.version, current_version} | running_releases(releases)
        versions = sorted(
            (name for name in os.listdir(releases) if not name.startswith(".")),
            key=lambda name: mtime(os.path.join(releases, name, MARKER)),
            reverse=True,
        )
        room = self.module.params["kept"] - len(kept_versions.intersection(versions))
        removed_versions = []
        for name in versions:
            if name in kept_versions:
                continue
            room -= 1
            if room < 0:
                shutil.rmtree(os.path.join(releases, name), ignore_errors=True)
                removed_versions.append(name)
        return removed_versions


def room_for(archive):
    """Returns an upper bound of the bytes needed for the archive and the packages with their
    bytecode."""
    size = 0
    with tarfile.open(archive) as tar:
        for member in tar:
            size += member.size
            if member.name.endswith(".whl"):
                try:
                    with zipfile.ZipFile(tar.extractfile(member)) as wheel:
                        size += sum(file.file_size for file in wheel.infolist()) * 3 // 2
                except zipfile.BadZipFile:
                    pass  # pip reports it
    return size


def mtime(path):
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def running_releases(releases):
    """Returns the releases that have running processes, which are found by the path of their
    interpreter."""
    versions = set()
    prefix = os.path.realpath(releases) + "/"
    for process in glob.glob("/proc/[0-9]*"):
        paths = []
        try:
            with open(process + "/cmdline", "rb") as file:
                paths.append(os.fsdecode(file.read(4096).split(b"\0")[0]))
            paths.append(os.readlink(process + "/exe"))
        except OSError:
            pass
        versions |= {path[len(prefix) :].split("/")[0] for path in paths if path.startswith(prefix)}
    return versions


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
        module.fail_json(msg=f"invalid version {module.params['version']!r}")
    if extras := [extra for extra in module.params["extras"] if not _EXTRA.fullmatch(extra)]:
        module.fail_json(msg=f"invalid extra {extras[0]!r}")
    try:
        module.exit_json(**result_of(module))
    except (OSError, tarfile.TarError, IsBusy, NoRoom) as error:
        module.fail_json(
            msg=f"cannot install release {module.params['version']}, and programs on this host are "
            f"unchanged: {error}"
        )


def result_of(module):
    archive = module.params["archive"]
    release = Release(module)
    if archive is None or module.check_mode:
        result = status_of(release)
        if release.is_whole:
            result["changed"] |= put_on_path(module, release.root)
        return result
    with locked(os.path.join(release.root, "releases")):
        # Another run may have installed it in the meantime.
        release = Release(module)
        result = status_of(release)
        if not release.is_whole:
            release.install(archive)
            result["removed"] = release.remove_old()
    put_on_path(module, release.root)
    return result


def status_of(release):
    """Returns the installed and the requested programs, and the files that the action must send."""
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

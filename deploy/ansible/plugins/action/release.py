"""Sends a host what it lacks of a release, and nothing else: the wheels that its programs need, and
ZooKeeper's jars where ZooKeeper runs."""

from __future__ import annotations

import io
import re
import tarfile
import tempfile
from pathlib import PurePosixPath

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.penstock.pipeline.plugins.module_utils.release_folder import (
    NEEDS_SPARK,
    Lacks,
    check_sum,
    spark,
    wheelhouse,
    zookeeper_jars,
)

_REQUIREMENT = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)


class ActionModule(ActionBase):
    TRANSFERS_FILES = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        given = dict(self._task.args)
        result = self._execute_module(module_args=given, task_vars=task_vars)
        lacks = result.get("missing") or result.get("needs_jars")
        if result.get("failed") or not lacks or self._task.check_mode:
            return result
        with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
            try:
                pack(archive, given["source"], str(given["version"]), result)
            except Lacks as lack:
                raise AnsibleActionFail(str(lack)) from None
            archive.flush()
            remote = self._connection._shell.join_path(
                self._connection._shell.tmpdir or self._make_tmp_path(), "release.tar"
            )
            self._transfer_file(archive.name, remote)
        try:
            return self._execute_module(
                module_args={**given, "archive": remote}, task_vars=task_vars
            )
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)


def pack(archive, folder, version, host):
    """Writes what the host lacks. Raises Lacks if the folder has not all of it, undamaged."""
    with tarfile.open(fileobj=archive, mode="w") as to:
        if extras := host["missing"]:
            shelves = [spark(folder, version)] if set(extras) & set(NEEDS_SPARK) else []
            house = wheelhouse(folder, version, host["python"], host["machine"])
            add_wheels(to, house, shelves, extras)
        if host["needs_jars"]:
            for name, content in files_of(zookeeper_jars(folder, version)):
                if name.endswith(".jar"):
                    add(to, f"jars/{name}", content)


def add_wheels(to, house, shelves, extras):
    """The lists of `extras`, the wheels that they name, and pip."""
    check_sum(house)
    lists = {f"requirements-{extra}.txt" for extra in extras}
    needed = set()
    with tarfile.open(house) as archive:
        for name, member in members_of(archive):
            if name in lists:
                lists.remove(name)
                text = archive.extractfile(member).read()
                add(to, name, io.BytesIO(text))
                needed |= {(plain(a), plain(b)) for a, b in _REQUIREMENT.findall(text.decode())}
    if lists:
        raise Lacks(f"{house} has no {', '.join(sorted(lists))}")
    for shelf in (house, *shelves):
        for name, content in files_of(shelf):
            if name.endswith(".whl"):
                project, version = map(plain, name.split("-")[:2])
                if (project, version) in needed or project == "pip":
                    needed.discard((project, version))
                    add(to, name, content)
    if needed:
        missing = ", ".join(" ".join(each) for each in sorted(needed))
        raise Lacks(f"{house} has no wheel of {missing}: make the release again")


def files_of(path):
    """The files in an archive of the release, undamaged, by their names without a folder."""
    check_sum(path)
    with tarfile.open(path) as archive:
        for name, member in members_of(archive):
            yield name, archive.extractfile(member)


def members_of(archive):
    return ((PurePosixPath(each.name).name, each) for each in archive if each.isfile())


def add(to, name, content):
    """A member of its own: one that is taken over from another archive keeps that one's path."""
    member = tarfile.TarInfo(name)
    member.size = content.seek(0, io.SEEK_END)
    content.seek(0)
    to.addfile(member, content)


def plain(name):
    """A project's name or version as it is compared."""
    return re.sub(r"[-_.]+", "-", name).lower()

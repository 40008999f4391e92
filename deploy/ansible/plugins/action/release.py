"""Sends a host only what it lacks: its programs' wheels, and ZooKeeper's jars if it runs there."""

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
    IncompleteRelease,
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
        arguments = dict(self._task.args)
        result = self._execute_module(module_args=arguments, task_vars=task_vars)
        is_incomplete = result.get("missing") or result.get("needs_jars")
        if result.get("failed") or not is_incomplete or self._task.check_mode:
            return result
        with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
            try:
                pack(archive, arguments["source"], str(arguments["version"]), result)
            except IncompleteRelease as error:
                raise AnsibleActionFail(str(error)) from None
            archive.flush()
            remote_path = self._connection._shell.join_path(
                self._connection._shell.tmpdir or self._make_tmp_path(), "release.tar"
            )
            self._transfer_file(archive.name, remote_path)
        try:
            return self._execute_module(
                module_args={**arguments, "archive": remote_path}, task_vars=task_vars
            )
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)


def pack(archive, folder, version, host):
    """Writes what the host lacks. Raises IncompleteRelease for a missing or damaged file."""
    with tarfile.open(fileobj=archive, mode="w") as output:
        if extras := host["missing"]:
            spark_wheels = [spark(folder, version)] if set(extras) & set(NEEDS_SPARK) else []
            wheels = wheelhouse(folder, version, host["python"], host["machine"])
            add_wheels(output, version, wheels, spark_wheels, extras)
        if host["needs_jars"]:
            for name, content in files_of(zookeeper_jars(folder, version), version):
                if name.endswith(".jar"):
                    add(output, f"jars/{name}", content)


def add_wheels(output, version, wheels, spark_wheels, extras):
    """Adds the requirements files of `extras`, the wheels that they name, and pip."""
    check_sum(wheels, version)
    list_names = {f"requirements-{extra}.txt" for extra in extras}
    needed_wheels = set()
    with tarfile.open(wheels) as archive:
        for name, member in members_of(archive):
            if name in list_names:
                list_names.remove(name)
                text = archive.extractfile(member).read()
                add(output, name, io.BytesIO(text))
                pins = _REQUIREMENT.findall(text.decode())
                needed_wheels |= {(normalized(name), normalized(version)) for name, version in pins}
    if list_names:
        raise IncompleteRelease(f"{wheels} has no {', '.join(sorted(list_names))}")
    for source in (wheels, *spark_wheels):
        for name, content in files_of(source, version):
            if name.endswith(".whl"):
                project, version = map(normalized, name.split("-")[:2])
                if (project, version) in needed_wheels or project == "pip":
                    needed_wheels.discard((project, version))
                    add(output, name, content)
    if needed_wheels:
        missing_wheels = ", ".join(" ".join(pair) for pair in sorted(needed_wheels))
        raise IncompleteRelease(
            f"{wheels} has no wheel of {missing_wheels}: build the release again"
        )


def files_of(path, version):
    """Yields (name without folder, content) of a release archive's files. Verifies its checksum."""
    check_sum(path, version)
    with tarfile.open(path) as archive:
        for name, member in members_of(archive):
            yield name, archive.extractfile(member)


def members_of(archive):
    return ((PurePosixPath(member.name).name, member) for member in archive if member.isfile())


def add(output, name, content):
    """Adds a file under `name`. Its TarInfo is new, since a copied one would keep the path in the
    other archive."""
    member = tarfile.TarInfo(name)
    member.size = content.seek(0, io.SEEK_END)
    content.seek(0)
    output.addfile(member, content)


def normalized(name):
    """Returns the form in which a project's name or version is compared."""
    return re.sub(r"[-_.]+", "-", name).lower()

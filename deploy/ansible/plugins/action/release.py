"""Sends a host what it lacks of a release, and nothing else: of the wheels those that its programs
need, and of Spark's jars those of ZooKeeper."""

from __future__ import annotations

import io
import os
import pathlib
import re
import tarfile
import tempfile
import zipfile

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.penstock.pipeline.plugins.action.bundle import checked_sum

_REQUIREMENT = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)
_JAR = re.compile(
    r"pyspark/jars/((?:zookeeper|zookeeper-jute|slf4j-api|metrics-core|snappy-java|log4j-api"
    r"|log4j-core|log4j-slf4j2-impl|netty-[a-z0-9-]+)-[0-9][^/]*\.jar)"
)


class ActionModule(ActionBase):
    TRANSFERS_FILES = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        given = dict(self._task.args)
        result = self._execute_module(module_args=given, task_vars=task_vars)
        lacks = result.get("missing") or result.get("needs_jars")
        if result.get("failed") or not lacks or self._task.check_mode:
            return result
        wheelhouse = self._wheelhouse(given, result["python"], result["machine"])
        remote = self._connection._shell.join_path(
            self._connection._shell.tmpdir or self._make_tmp_path(), "release.tar"
        )
        with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
            pick(wheelhouse, result["missing"], archive, jars=result["needs_jars"])
            archive.flush()
            self._transfer_file(archive.name, remote)
        try:
            return self._execute_module(
                module_args={**given, "archive": remote}, task_vars=task_vars
            )
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def _wheelhouse(self, given, python, machine):
        folder, version = given["source"], given["version"]
        tags = [f"py{python}", f"pycp{python}", f"cp{python}", f"py{python[0]}.{python[1:]}"]
        names = [f"penstock-wheelhouse-{version}-{tag}-linux-{machine}.tar" for tag in tags]
        for name in names:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                checked_sum(pathlib.Path(path))
                return path
        raise AnsibleActionFail(
            f"{folder} has no {names[0]}: this host has Python {python[0]}.{python[1:]} on "
            f"{machine}, and the release was made without wheels for it"
        )


def pick(wheelhouse, extras, archive, *, jars):
    """Of a wheelhouse, what these need, written as another archive."""
    with tarfile.open(wheelhouse) as source, tarfile.open(fileobj=archive, mode="w") as to:
        files = {os.path.basename(each.name): each for each in source if each.isfile()}
        needed = set()
        for extra in extras:
            name = f"requirements-{extra}.txt"
            if name not in files:
                raise AnsibleActionFail(f"{wheelhouse} has no {name}")
            text = source.extractfile(files[name]).read()
            add(to, name, text)
            needed |= {(plain(a), plain(b)) for a, b in _REQUIREMENT.findall(text.decode())}
        for name, member in files.items():
            if name.endswith(".whl"):
                project, version = name.split("-")[:2]
                wanted = (plain(project), plain(version)) in needed
                if wanted or plain(project) == "pip":
                    member.name = name
                    to.addfile(member, source.extractfile(member))
        if jars:
            spark = next(
                (each for name, each in files.items() if name.startswith("pyspark-")), None
            )
            if spark is None:
                raise AnsibleActionFail(f"{wheelhouse} has no pyspark, which has ZooKeeper's jars")
            with zipfile.ZipFile(source.extractfile(spark)) as wheel:
                for name in wheel.namelist():
                    if found := _JAR.fullmatch(name):
                        add(to, f"jars/{found[1]}", wheel.read(name))


def add(to, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    to.addfile(member, io.BytesIO(content))


def plain(name):
    """A project's name or version as it is compared."""
    return re.sub(r"[-_.]+", "-", name).lower()

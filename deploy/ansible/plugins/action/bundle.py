"""Which archive an agent's host is sent: the one for its processor, if it does not have it yet.

A host that has it costs one question. For others the archive's sum is first compared with what
SHA256SUMS of the release folder says.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

MACHINES = {"x86_64": ("x86_64", "amd64"), "aarch64": ("aarch64", "arm64")}


class ActionModule(ActionBase):
    TRANSFERS_FILES = True

    def run(self, tmp=None, task_vars=None):
        self._supports_check_mode = True
        result = super().run(tmp, task_vars)
        given = {**self._task.args}
        given.pop("archive", None)
        asked = self._execute_module(
            module_name="penstock.pipeline.bundle", module_args=given, task_vars=task_vars
        )
        if asked.get("failed") or not asked["missing"]:
            return {**result, **asked}
        archive = archive_for(Path(given["source"]), str(given["version"]), asked["machine"])
        sha256 = checked_sum(archive)
        if self._task.check_mode:
            after = {"before": "", "after": f"{asked['path']}\n"}
            return {**result, **asked, "changed": True, "diff": after}
        there = self._connection._shell.join_path(self._make_tmp_path(), archive.name)
        self._transfer_file(str(archive), there)
        self._fixup_perms2([self._connection._shell.tmpdir, there])
        try:
            done = self._execute_module(
                module_name="penstock.pipeline.bundle",
                module_args={**given, "archive": there, "sha256": sha256},
                task_vars=task_vars,
            )
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        return {**result, **done}


def archive_for(folder, version, machine):
    for each in MACHINES.get(machine, (machine,)):
        path = folder / f"penstock-agent-{version}-linux-{each}.tar.gz"
        if path.is_file():
            return path
    there = sorted(each.name for each in folder.glob("penstock-agent-*.tar.gz"))
    raise AnsibleActionFail(
        f"{folder} has no agent of release {version} for {machine}; it has "
        f"{', '.join(there) or 'none'}"
    )


def checked_sum(archive):
    """What SHA256SUMS says of it, which it must be."""
    sums = archive.parent / "SHA256SUMS"
    if not sums.is_file():
        raise AnsibleActionFail(f"there is no SHA256SUMS in {archive.parent}")
    told = {}
    for line in sums.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if len(words) == 2:
            told[words[1].lstrip("*")] = words[0]
    digest = hashlib.sha256()
    with archive.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    if told.get(archive.name) != digest.hexdigest():
        raise AnsibleActionFail(f"{archive} is not what SHA256SUMS beside it says")
    return digest.hexdigest()

"""Which archive an agent's host is sent: the one for its processor, if it does not have it yet.

A host that has it costs one question. For others the archive's sum is first compared with what
SHA256SUMS of the release folder says.
"""

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.penstock.pipeline.plugins.module_utils.release_folder import (
    Lacks,
    agent,
    check_sum,
)


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
        try:
            archive = agent(given["source"], str(given["version"]), asked["machine"])
            sha256 = check_sum(archive)
        except Lacks as lack:
            raise AnsibleActionFail(str(lack)) from None
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

"""Sends an agent's host the archive for its processor, unless the release is installed already.

A host that has the release costs one module call. For other hosts the archive's checksum is first
compared with the release's checksums.
"""

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.penstock.pipeline.plugins.module_utils.release_folder import (
    IncompleteRelease,
    agent,
    check_sum,
)


class ActionModule(ActionBase):
    TRANSFERS_FILES = True

    def run(self, tmp=None, task_vars=None):
        self._supports_check_mode = True
        result = super().run(tmp, task_vars)
        arguments = {**self._task.args}
        arguments.pop("archive", None)
        status = self._execute_module(
            module_name="penstock.pipeline.bundle", module_args=arguments, task_vars=task_vars
        )
        if status.get("failed") or not status["missing"]:
            return {**result, **status}
        try:
            version = str(arguments["version"])
            archive = agent(arguments["source"], version, status["machine"])
            sha256 = check_sum(archive, version)
        except IncompleteRelease as error:
            raise AnsibleActionFail(str(error)) from None
        if self._task.check_mode:
            diff = {"before": "", "after": f"{status['path']}\n"}
            return {**result, **status, "changed": True, "diff": diff}
        remote_path = self._connection._shell.join_path(self._make_tmp_path(), archive.name)
        self._transfer_file(str(archive), remote_path)
        self._fixup_perms2([self._connection._shell.tmpdir, remote_path])
        try:
            installation = self._execute_module(
                module_name="penstock.pipeline.bundle",
                module_args={**arguments, "archive": remote_path, "sha256": sha256},
                task_vars=task_vars,
            )
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        return {**result, **installation}

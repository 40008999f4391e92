"""Fails unless the release folder on the controller holds what hosts will need."""

from __future__ import annotations

import re

from ansible.errors import AnsibleActionFail
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible_collections.penstock.pipeline.plugins.module_utils.release_folder import Lacks, check

_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_EXTRA = re.compile(r"[a-z][a-z-]{0,39}")
_ARGUMENTS = frozenset({"source", "version", "extras", "jars", "bundle"})


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _VALID_ARGS = _ARGUMENTS

    def run(self, tmp=None, task_vars=None):
        self._supports_check_mode = True
        result = super().run(tmp, task_vars)
        given = self._task.args
        folder, version = str(given.get("source") or ""), str(given.get("version") or "")
        extras = given.get("extras") or []
        extras = extras.split(",") if isinstance(extras, str) else [str(each) for each in extras]
        wrong = [extra for extra in extras if not _EXTRA.fullmatch(extra)]
        if not folder or not _VERSION.fullmatch(version) or wrong:
            raise AnsibleActionFail(
                f"invalid arguments: source {folder!r}, version {version!r}, extras {extras!r}"
            )
        try:
            check(
                folder,
                version,
                extras=sorted(set(extras)),
                jars=boolean(given.get("jars", False)),
                bundle=boolean(given.get("bundle", False)),
            )
        except (Lacks, OSError) as lack:
            raise AnsibleActionFail(f"nothing was changed: {lack}") from None
        return {**result, "changed": False}

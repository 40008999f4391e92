"""Fails unless the release folder on the controller contains everything that hosts will need."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible_collections.penstock.pipeline.plugins.module_utils.release_folder import (
    IncompleteRelease,
    check,
)

_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_EXTRA = re.compile(r"[a-z][a-z-]{0,39}")
_ARGUMENTS = frozenset({"source", "version", "extras", "jars", "bundle"})


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _VALID_ARGS = _ARGUMENTS

    def run(self, tmp=None, task_vars=None):
        self._supports_check_mode = True
        result = super().run(tmp, task_vars)
        arguments = self._task.args
        folder, version = str(arguments.get("source") or ""), str(arguments.get("version") or "")
        extras = arguments.get("extras") or []
        extras = extras.split(",") if isinstance(extras, str) else [str(extra) for extra in extras]
        invalid_extras = [extra for extra in extras if not _EXTRA.fullmatch(extra)]
        if not folder or not _VERSION.fullmatch(version) or invalid_extras:
            raise AnsibleActionFail(
                f"invalid `source` {folder!r}, `version` {version!r} or `extras` {extras!r}"
            )
        try:
            check(
                folder,
                version,
                extras=sorted(set(extras)),
                jars=boolean(arguments.get("jars", False)),
                bundle=boolean(arguments.get("bundle", False)),
            )
        except (IncompleteRelease, OSError) as error:
            raise AnsibleActionFail(f"nothing was changed: {error}") from None
        own_version = version_of_collection()
        warnings = [
            f"this collection is that of release {own_version}, and hosts get release {version}. "
            "To install the other collection: ansible-galaxy collection install --force "
            f"{folder}/penstock-pipeline-{version}.tar.gz"
        ]
        return {
            **result,
            "changed": False,
            "warnings": warnings if own_version not in {"", version} else [],
        }


def version_of_collection():
    """Returns the release that the collection came with; "" for a checkout."""
    try:
        text = (Path(__file__).parents[2] / "MANIFEST.json").read_text(encoding="utf-8")
        return str(json.loads(text)["collection_info"]["version"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""

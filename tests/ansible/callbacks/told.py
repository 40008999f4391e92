# mypy: ignore-errors
"""Writes each task's name and result into the file that PENSTOCK_TOLD names, an object a line.

Loaded by ansible-playbook itself, in its own Python: nothing of the project is imported here.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: told
type: notification
short_description: what came of each task
description: Written to the file that PENSTOCK_TOLD names.
"""

_KEPT = ("changed", "msg", "diff", "items", "skipped", "validate_args_context")


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "told"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_play_start(self, play):
        self._play = play.get_name()

    def _write(self, result, *, failed=False, ignored=False):
        said = {name: value for name, value in result._result.items() if name in _KEPT}
        said |= {"failed": failed, "ignored": ignored}
        said |= {"host": result._host.get_name(), "play": self._play}
        # Some releases put the role before it.
        name = (result.task_name or result._task.get_name()).rpartition(" : ")[2].strip()
        with Path(os.environ["PENSTOCK_TOLD"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, "result": said}, default=str) + "\n")

    def v2_runner_on_ok(self, result):
        self._write(result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._write(result, failed=not ignore_errors, ignored=ignore_errors)

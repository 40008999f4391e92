# mypy: ignore-errors
"""Writes what came of each task on each host into a file, a JSON object a line.

Loaded by ansible-playbook itself, in its own Python: nothing of the project is imported here.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: recorded
type: notification
short_description: what came of each task on each host
description: Written to the file that PENSTOCK_PLAY_RECORD names.
"""

_SAID = 4000


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "recorded"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        super().__init__()
        self._path = Path(os.environ["PENSTOCK_PLAY_RECORD"])

    def _write(self, outcome, result, ignored=False):
        said = result._result if isinstance(result._result, dict) else {}
        if outcome == "ok" and said.get("changed"):
            outcome = "changed"
        message = "" if said.get("censored") else str(said.get("msg", ""))[:_SAID]
        name = (result.task_name or result._task.get_name()).strip()
        row = {
            "outcome": "ignored" if ignored else outcome,
            "host": result._host.get_name(),
            "task": name,
            "message": message,
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def v2_runner_on_ok(self, result):
        self._write("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._write("failed", result, ignore_errors)

    def v2_runner_on_skipped(self, result):
        self._write("skipped", result)

    def v2_runner_on_unreachable(self, result):
        self._write("unreachable", result)

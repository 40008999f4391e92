"""Prints what a run changes, its messages and its failures: tens of lines instead of a thousand."""

from __future__ import annotations

from ansible.plugins.callback.default import CallbackModule as DefaultOutput

DOCUMENTATION = """
name: changes
type: stdout
author: The Penstock authors
short_description: Default output without results that changed nothing
description:
  - Prints plays, changes, messages, warnings, failures and the recap as Ansible's default output
    does. Leaves out tasks that changed nothing or were skipped. With C(-v) prints everything.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
"""


class CallbackModule(DefaultOutput):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "penstock.pipeline.changes"

    def set_options(self, *args, **kwargs):
        super().set_options(*args, **kwargs)
        if not self._display.verbosity:
            self.set_option("display_ok_hosts", False)
            self.set_option("display_skipped_hosts", False)

    def v2_runner_on_ok(self, result):
        if self._display.verbosity:
            super().v2_runner_on_ok(result)
            return
        is_message = str(result._task.action).rpartition(".")[2] == "debug"
        if is_message or result._result.get("warnings"):
            self.set_option("display_ok_hosts", True)
            super().v2_runner_on_ok(result)
            self.set_option("display_ok_hosts", False)
        elif result._result.get("changed"):
            super().v2_runner_on_ok(result)

    def v2_playbook_on_include(self, included_file):
        if self._display.verbosity:
            super().v2_playbook_on_include(included_file)

    def v2_runner_retry(self, result):
        # Shows what the run waits for, without a line for each attempt.
        if self._display.verbosity:
            super().v2_runner_retry(result)
        elif self._last_task_banner != result._task._uuid:
            self._print_task_banner(result._task)

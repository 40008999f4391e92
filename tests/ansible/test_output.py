"""What a run prints with the collection's ansible.cfg: changes, messages and failures."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.hosts.ansible_tools import COLLECTION, play
from tests.ansible.conftest import HERE

pytestmark = pytest.mark.not_quick("starts Ansible")

FAILS = "echo to stdout; echo to stderr >&2; false"


def test_results_that_changed_nothing_are_left_out(ansible: None, tmp_path: Path) -> None:
    once = f"test -e {tmp_path}/once || {{ touch {tmp_path}/once; false; }}"
    given: dict[str, dict[str, Any]] = {
        "Message": {"debug": {"msg": "the backup is there"}},
        "Nothing": {"command": "true", "changed_when": False},
        "Skip": {"command": "true", "when": False},
        "Include": {"include_tasks": "included.yml"},
        "Change": {"command": "echo {{ item }}", "changed_when": "item == 2", "loop": [1, 2]},
        "Wait": {"shell": once, "until": "w.rc == 0", "register": "w", "delay": 0},
        "Warn": {"find": {"paths": [f"{tmp_path}/none"]}},
        "Fail": {"shell": FAILS},
    }
    given["Wait"]["changed_when"] = False
    (tmp_path / "included.yml").write_text("[{name: Included, command: 'true', changed_when: no}]")
    shutil.copy(COLLECTION / "ansible.cfg", tmp_path)
    tasks = [{"name": name, **task} for name, task in given.items()]
    document = [{"name": "All", "hosts": "all", "gather_facts": False, "tasks": tasks}]
    played = play(tmp_path, document, {"all": {"hosts": {"here": HERE}}})
    shown = re.findall(r"TASK \[(\w+)\]", played.said)
    assert shown == ["Message", "Change", "Wait", "Warn", "Fail"], played.said
    for text in ("the backup is there", "(item=2)", "Skipped '", "to stdout", "to stderr"):
        assert text in played.said
    for text in ("(item=1)", "included:", "RETRYING"):
        assert text not in played.said

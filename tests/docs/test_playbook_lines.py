"""What pages say of Ansible: each playbook that a command names is there, and each variable that is
given with it is one of the collection's. Playing them is for tests/fleet.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import ROOT, Block, blocks_of, pages

COLLECTION: Final = ROOT / "deploy/ansible"
_PLAYBOOK: Final = re.compile(r"\bpenstock\.pipeline\.([a-z_]+)")
_GIVEN: Final = re.compile(r"(?:-e|--extra-vars)\s+'?\{?\"?(penstock_[a-z_]+)")
COMMANDS: Final = [
    block
    for page in pages()
    for block in blocks_of(page)
    if block.language == "sh" and "ansible-playbook" in block.text
]


@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: block.where)
def test_a_command_names_what_there_is(block: Block) -> None:
    there = {each.stem for each in (COLLECTION / "playbooks").glob("*.yml")}
    assert set(_PLAYBOOK.findall(block.text)) - there == set()
    assert set(_GIVEN.findall(block.text)) - variables() == set()


def test_there_are_such_commands() -> None:
    named = {name for block in COMMANDS for name in _PLAYBOOK.findall(block.text)}
    assert {"site", "agents", "rolling", "rollback", "retire_host"} <= named


@cache
def variables() -> frozenset[str]:
    """All that roles and playbooks ask for by name."""
    return frozenset(
        name for file in _files() for name in re.findall(r"\bpenstock_[a-z_]+", file.read_text())
    )


def _files() -> Iterator[Path]:
    for folder in ("playbooks", "roles"):
        yield from sorted((COLLECTION / folder).rglob("*.yml"))

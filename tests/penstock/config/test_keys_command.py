"""`penstock keys`."""

import json

import pytest

from penstock.config.reference import KINDS
from tests.penstock.running import PENSTOCK, penstock
from tests.penstock.terminals import on_a_terminal


@pytest.mark.not_quick("imports whole programs")
@pytest.mark.parametrize("program", KINDS)
def test_every_program_explains_itself(program: str) -> None:
    ended = penstock("keys", program)
    assert (ended.returncode, ended.stderr) == (0, "")
    titles, *rows = ended.stdout.splitlines()
    assert titles.split() == ["key", "type", "default", "meaning"]
    documents = json.loads(penstock("keys", program, "--json").stdout)
    assert [row.split()[0] for row in rows] == [each["key"] for each in documents]


def test_only_what_is_looked_for() -> None:
    ended = penstock("keys", "agent", "Multiline", "begins")
    assert [row.split()[0] for row in ended.stdout.splitlines()[1:]] == [
        "inputs[].multiline.start",
        "inputs[].multiline.indentation",
    ]


def test_a_key_as_a_document() -> None:
    (document, *_) = json.loads(penstock("keys", "broker", "port", "listens", "--json").stdout)
    assert document == {
        "key": "port",
        "type": "port",
        "allowed": [],
        "required": False,
        "default": 9092,
        "meaning": "The port that it listens on; 0: any that is free.",
    }


def test_a_terminal_has_the_meaning_under_the_key() -> None:
    shown = on_a_terminal([*PENSTOCK, "keys", "audit", "retention"], columns=60)
    assert shown.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines() == [
        "retention  seconds, default 604800 (7 days)",
        "    Windows, files and loads older than that are forgotten.",
    ]


def test_what_nobody_speaks_of() -> None:
    ended = penstock("keys", "agent", "flux", "capacitor")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "penstock: no key of the agent speaks of flux capacitor; all are in `penstock keys agent`\n"
    )


def test_a_program_without_configuration() -> None:
    ended = penstock("keys", "completion")
    assert ended.returncode == 2
    assert "'completion' is not one of 'agent', 'broker'" in ended.stderr

"""docs/threat-model.md: each row of its table names tests that exist, or a command."""

import re
from typing import Final

import pytest

from tests.campaigns.__main__ import CAMPAIGNS
from tests.docs.pages import ROOT

PAGE: Final = ROOT / "docs" / "threat-model.md"
ATTACKERS: Final = {
    *("network", "application", "agent's host", "writer", "broker", "ZooKeeper", "mirror"),
    *("loader", "audit", "operator"),
}


def rows() -> list[list[str]]:
    """The cells of the first table, without its head."""
    table = re.search(r"^\| who \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    assert table is not None
    return [line.strip("|\n").split(" | ") for line in table[1].splitlines()]


def test_each_attacker_has_a_row() -> None:
    names = {match[1] for row in rows() if (match := re.match(r" ?\*\*(.*?)\*\*", row[0]))}
    assert names == ATTACKERS
    assert {len(row) for row in rows()} == {4}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_what_a_row_claims_is_shown_by_tests_that_exist(row: list[str]) -> None:
    paths = re.findall(r"\]\((.*?)\)", row[3])
    assert paths
    for path in paths:
        file = (PAGE.parent / path).resolve()
        assert file.is_relative_to(ROOT / "tests"), path
        assert re.search(r"^def test_", file.read_text(), re.MULTILINE), path
    for command in re.findall(r"`(.*?)`", row[3]):
        match = re.fullmatch(r"make campaign ARGS=(\w+)", command)
        assert match is not None, command
        assert match[1] in CAMPAIGNS

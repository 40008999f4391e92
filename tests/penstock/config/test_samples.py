"""The samples in docs/: what they show is true, and complete.

A line that begins with `#` and no space is a key with its default, commented out.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.config.configuration import load
from penstock.config.reference import KINDS, sections

SAMPLES = Path(__file__).resolve().parents[3] / "docs" / "samples"
_COMMENTED_OUT = re.compile(r"^( *)#(?=\S)", re.MULTILINE)


def uncommented(program: str) -> str:
    return _COMMENTED_OUT.sub(r"\1", (SAMPLES / f"{program}.yaml").read_text())


def test_every_program_has_a_minimal_and_a_full_one() -> None:
    there = {each.name for each in SAMPLES.iterdir()}
    assert there == {f"{name}{kind}.yaml" for name in KINDS for kind in ("", "-minimal")}


@pytest.mark.parametrize("program", KINDS)
def test_samples_are_accepted(program: str) -> None:
    for name in (program, f"{program}-minimal"):
        load(KINDS[program], SAMPLES / f"{name}.yaml")


@pytest.mark.parametrize("program", KINDS)
def test_what_is_commented_out_is_the_default(program: str, tmp_path: Path) -> None:
    path = tmp_path / "uncommented.yaml"
    path.write_text(uncommented(program))
    as_it_is = load(KINDS[program], SAMPLES / f"{program}.yaml")
    assert load(KINDS[program], path) == as_it_is
    assert path.read_text() != (SAMPLES / f"{program}.yaml").read_text()


@pytest.mark.parametrize("program", KINDS)
def test_every_key_is_shown(program: str) -> None:
    document = yaml.safe_load(uncommented(program))
    missing = [
        key.name
        for section in sections(KINDS[program])
        for key in section.keys
        if not shown(document, re.split(r"\.|(?=\[\])", key.name))
    ]
    assert missing == []


def shown(document: Any, name: list[str]) -> bool:
    """Whether a key is there; in a list, in one of its entries. What is null has no keys."""
    if not name or document is None:
        return True
    if name[0] == "[]":
        return isinstance(document, list) and any(shown(each, name[1:]) for each in document)
    if not isinstance(document, dict):
        return False
    if name[0] == "NAME":
        return any(shown(each, name[1:]) for each in document.values())
    return name[0] in document and shown(document[name[0]], name[1:])

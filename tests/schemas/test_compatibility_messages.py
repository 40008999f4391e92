"""The lines of Confluent's registry, as one of version 8.3.1 gave them: compatibility/README.md."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.compatibility import Level, messages
from schemas.parsing import AvroSchema, parse

CASES = json.loads((Path(__file__).parent / "compatibility/messages.json").read_text())


def schema(value: Any) -> AvroSchema:
    return parse(json.dumps(value))


def said(case: dict[str, Any]) -> list[str]:
    previous = [(version, schema(each)) for version, each in case["previous"]]
    return messages(Level(case["level"]), schema(case["new"]), previous)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_as_confluent_says_it(case: dict[str, Any]) -> None:
    assert said(case) == case["messages"]


def test_the_table_has_what_it_is_for() -> None:
    lines = [line for case in CASES for line in case["messages"]]
    assert {case["level"] for case in CASES} == set(Level)
    assert sum(line.startswith("{oldSchema: <truncated> '") for line in lines) == 2
    for kind in ("NAME", "FIXED_SIZE", "TYPE"):
        assert any(line.startswith(f"{{errorType:'{kind}_MISMATCH'") for line in lines)
    for kind in ("ENUM_SYMBOLS", "UNION_BRANCH"):
        assert any(line.startswith(f"{{errorType:'MISSING_{kind}'") for line in lines)


@pytest.mark.parametrize("level", ["BACKWARD", "FORWARD"])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_what_full_takes_both_directions_take(case: dict[str, Any], level: str) -> None:
    for transitive in ("", "_TRANSITIVE"):
        if not said({**case, "level": f"FULL{transitive}"}):
            assert said({**case, "level": level + transitive}) == []


def test_the_newest_that_does_not_fit_is_named() -> None:
    versions = ["string", "int", "boolean", "int"]
    previous = [(number, schema(each)) for number, each in zip([1, 4, 5, 9], versions, strict=True)]
    found = messages(Level.BACKWARD_TRANSITIVE, schema("long"), previous)
    assert found[1:] == ["{oldSchemaVersion: 5}", "{oldSchema: '\"boolean\"'}"]


def test_one_schema_after_the_other_is_not_mistaken_for_the_same() -> None:
    """Pairs are known by identity, and Python gives the place of one object to the next."""
    for _ in range(50):
        for new, fits in (("long", True), ("string", False), ("int", True), ("bytes", False)):
            assert (messages(Level.BACKWARD, schema([new]), [(1, schema(["int"]))]) == []) == fits

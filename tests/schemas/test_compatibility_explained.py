"""What people are told: the field, the versions, who cannot read what, and the cure."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.compatibility import Level, explain
from schemas.parsing import parse


def order(*fields: Any, name: str = "shop.Order") -> dict[str, Any]:
    made = [
        each if isinstance(each, dict) else {"name": each[0], "type": each[1]} for each in fields
    ]
    return {"type": "record", "name": name, "fields": made}


def explained(level: str, old: Any, new: Any, version: int = 4) -> list[str]:
    return explain(Level(level), parse(json.dumps(new)), [(version, parse(json.dumps(old)))])


def enum(*symbols: str) -> dict[str, Any]:
    return {"type": "enum", "name": "Colour", "symbols": list(symbols)}


def line(*fields: Any) -> dict[str, Any]:
    return order(*fields, name="shop.Line")


CASES = json.loads((Path(__file__).parent / "compatibility/explained.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_sentence_for_each(case: dict[str, Any]) -> None:
    old, new = case["old"], case["new"]
    assert explained("BACKWARD", old, new) == case["backward"]
    assert explained("FORWARD", old, new) == case["forward"]
    assert explained("FULL", old, new) == case["forward"] + case["backward"]
    assert explained("NONE", old, new) == []


def test_a_type_in_many_places_is_explained_once() -> None:
    def both(of: str) -> Any:
        return order(
            ("home", line(("zip", of))), ("work", "shop.Line"), ("old", ["null", "shop.Line"])
        )

    found = explained("BACKWARD", both("int"), both("string"))
    assert [each.partition(":")[0] for each in found] == [
        "field `home.zip` of shop.Order (at /fields/0/type/fields/0/type)"
    ]


def test_what_nobody_reads_is_left_out() -> None:
    old, new = order(), order(*((f"field{index}", "int") for index in range(300)))
    found = explained("BACKWARD", old, new)
    assert len(found) == 101
    assert found[99].startswith("field `field99` of shop.Order")
    assert found[100] == "there is more, which is left out here"


def test_many_symbols_are_counted() -> None:
    old, new = enum(*(f"S{index:03}" for index in range(300))), enum("RED")
    (found,) = explained("BACKWARD", old, new)
    assert "S000, S001, S002, S003, S004, S005, S006, S007, S008, S009 and 290 more in" in found


def test_all_versions_are_asked_the_newest_first() -> None:
    previous = [(1, parse('"string"')), (2, parse('"boolean"')), (7, parse('"int"'))]
    (found,) = explain(Level.BACKWARD_TRANSITIVE, parse('"long"'), previous)
    assert "but boolean in version 2" in found
    assert explain(Level.BACKWARD, parse('"long"'), previous) == []

"""Whether a schema may follow others: the lines of Confluent's registry, as one of version 8.3.1
gave them, and what people are told: the field, the versions, who cannot read what, and the cure."""

import json
from typing import Any

import pytest

from schemas.compatibility import Level, explain, messages
from schemas.parsing import AvroSchema, parse
from tests.schemas.compatibility_tables import each_of, table

LINES = table("messages")


def schema(value: Any) -> AvroSchema:
    return parse(json.dumps(value))


def said(case: dict[str, Any]) -> list[str]:
    previous = [(version, schema(each)) for version, each in case["previous"]]
    return messages(Level(case["level"]), schema(case["new"]), previous)


@each_of(LINES)
def test_as_confluent_says_it(case: dict[str, Any]) -> None:
    assert said(case) == case["messages"]


@pytest.mark.parametrize("level", ["BACKWARD", "FORWARD"])
@each_of(LINES)
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


# What people are told


def order(*fields: Any, name: str = "shop.Order") -> dict[str, Any]:
    made = [
        each if isinstance(each, dict) else {"name": each[0], "type": each[1]} for each in fields
    ]
    return {"type": "record", "name": name, "fields": made}


def explained(level: str, old: Any, new: Any, version: int = 4) -> list[str]:
    return explain(Level(level), schema(new), [(version, schema(old))])


def enum(*symbols: str) -> dict[str, Any]:
    return {"type": "enum", "name": "Colour", "symbols": list(symbols)}


def line(*fields: Any) -> dict[str, Any]:
    return order(*fields, name="shop.Line")


@each_of(table("explained"))
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
    previous = [(1, schema("string")), (2, schema("boolean")), (7, schema("int"))]
    (found,) = explain(Level.BACKWARD_TRANSITIVE, schema("long"), previous)
    assert "but boolean in version 2" in found
    assert explain(Level.BACKWARD, schema("long"), previous) == []

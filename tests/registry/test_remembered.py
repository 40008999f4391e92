"""Parsed schemas are remembered up to a size, whatever is asked for."""

import json

import pytest

from registry.remembered import RememberedSchemas
from schemas.errors import InvalidSchema


def a_schema(name: str, fields: int = 1) -> str:
    record = {
        "type": "record",
        "name": name,
        "fields": [{"name": f"field_{number}", "type": "int"} for number in range(fields)],
    }
    return json.dumps(record)


def test_what_was_parsed_is_not_parsed_again() -> None:
    remembered = RememberedSchemas(100_000)
    first = remembered.parsed(a_schema("A"), (), strict=True)
    assert remembered.parsed(a_schema("A"), (), strict=True) is first
    assert remembered.parsed(a_schema("A"), (), strict=False) is not first
    assert len(remembered) == 2


def test_what_was_not_asked_for_longest_is_forgotten_first() -> None:
    size = len(a_schema("A", 100))
    remembered = RememberedSchemas(3 * size)
    kept = remembered.parsed(a_schema("A", 100), (), strict=True)
    for name in "BCDE":
        remembered.parsed(a_schema(name, 100), (), strict=True)
        assert remembered.parsed(a_schema("A", 100), (), strict=True) is kept
        assert len(remembered) <= 3


def test_one_that_is_larger_than_all_room_is_remembered_alone() -> None:
    remembered = RememberedSchemas(10)
    large = remembered.parsed(a_schema("A", 100), (), strict=True)
    assert remembered.parsed(a_schema("A", 100), (), strict=True) is large
    remembered.parsed(a_schema("B"), (), strict=True)
    assert len(remembered) == 1


def test_what_is_no_schema_is_not_remembered() -> None:
    remembered = RememberedSchemas()
    for _ in range(2):
        with pytest.raises(InvalidSchema):
            remembered.parsed("{", (), strict=True)
    assert len(remembered) == 0

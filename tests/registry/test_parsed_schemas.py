"""Parsed schemas are remembered up to a size, whatever is asked for."""

import json

import pytest

from registry.parsed_schemas import ParsedSchemaCache, Sent
from schemas.errors import InvalidSchema


def a_schema(name: str, fields: int = 1) -> str:
    record = {
        "type": "record",
        "name": name,
        "fields": [{"name": f"field_{number}", "type": "int"} for number in range(fields)],
    }
    return json.dumps(record)


def test_what_was_parsed_is_not_parsed_again() -> None:
    remembered = ParsedSchemaCache(100_000)
    sent = Sent(a_schema("A"))
    first = remembered.schema(sent)
    assert remembered.schema(sent) is first
    assert remembered.schema(sent._replace(strict=False)) is first
    assert remembered.schema(sent._replace(normalize=True)) is not first


def test_what_is_not_taken_strictly_is_taken_otherwise_if_that_is_asked() -> None:
    remembered = ParsedSchemaCache()
    lax = Sent('{"type": "record", "name": "A-1", "fields": []}', strict=False)
    wrong = Sent(
        '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "int", "default": "x"}]}'
    )
    for sent in (lax, wrong):
        with pytest.raises(InvalidSchema):
            remembered.schema(sent._replace(strict=True))
    taken = remembered.schema(wrong._replace(strict=False))
    assert remembered.schema(wrong._replace(strict=False)) is taken
    with pytest.raises(InvalidSchema):
        remembered.schema(wrong)


def test_a_text_is_known_without_its_schema() -> None:
    remembered = ParsedSchemaCache(schemas=1)
    texts = {name: remembered.stored_text(Sent(a_schema(name))) for name in "ABCDE"}
    assert len(remembered.schemas) == 1
    for name, text in texts.items():
        assert remembered.stored_text(Sent(a_schema(name), strict=False)) is text
    assert len(remembered.texts) == 5


def test_texts_with_other_references_are_others() -> None:
    remembered = ParsedSchemaCache()
    referring = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "A"}]}'
    one, other = a_schema("A"), a_schema("A", 2)
    assert Sent(referring, (one,)).digest != Sent(referring, (other,)).digest
    assert Sent(one + referring).digest != Sent(referring, (one,)).digest
    assert Sent(one).digest != Sent(one, normalize=True).digest
    assert remembered.stored_text(Sent(referring, (one,))) == remembered.stored_text(
        Sent(referring, (other,))
    )


def test_what_was_not_asked_for_longest_is_forgotten_first() -> None:
    size = len(a_schema("A", 100))
    remembered = ParsedSchemaCache(3 * size)
    kept = remembered.schema(Sent(a_schema("A", 100)))
    for name in "BCDE":
        remembered.schema(Sent(a_schema(name, 100)))
        assert remembered.schema(Sent(a_schema("A", 100))) is kept
        assert len(remembered.schemas) <= 3


def test_one_that_is_larger_than_all_room_is_remembered_alone() -> None:
    remembered = ParsedSchemaCache(10)
    large = remembered.schema(Sent(a_schema("A", 100)))
    assert remembered.schema(Sent(a_schema("A", 100))) is large
    remembered.schema(Sent(a_schema("B")))
    assert len(remembered.schemas) == 1


def test_what_is_no_schema_is_not_remembered() -> None:
    remembered = ParsedSchemaCache()
    for _ in range(2):
        with pytest.raises(InvalidSchema):
            remembered.stored_text(Sent("{"))
    assert len(remembered.schemas) == len(remembered.texts) == 0

"""The text of a schema, the same when it is read again. That it is Java's: test_golden_schemas."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.definitions.json_reading import MAX_DEPTH
from schemas.errors import InvalidSchema
from schemas.parsing import AvroSchema, parse
from tests.schemas.avro_strategies import schemas


@given(schemas(), st.booleans())
def test_every_schema_comes_back_as_it_was(value: Any, strict: bool) -> None:
    schema = parse(json.dumps(value), strict=strict)
    again = parse(schema.text, strict=strict)
    assert again.text == schema.text
    assert again.canonical_form == schema.canonical_form
    assert again.normalized() == schema.normalized()
    assert again.full_name == schema.full_name
    # Nothing is lost: the same as JSON, but for what need not be said.
    assert _spelled_out(json.loads(schema.text), "") == _spelled_out(value, "")


def _spelled_out(type_: Any, namespace: str) -> Any:
    """Names in full, `{"type": "int"}` as "int", nothing that says what holds anyway."""
    if isinstance(type_, list):
        return [_spelled_out(branch, namespace) for branch in type_]
    if isinstance(type_, str):
        return _full(type_, namespace)
    out = {key: value for key, value in type_.items() if key != "namespace"}
    if "name" in type_:
        out["name"] = full = _full(type_["name"], type_.get("namespace", namespace), names=True)
        namespace = full.rpartition(".")[0]
        aliases = [_full(alias, namespace, names=True) for alias in type_.get("aliases", ())]
        out["aliases"] = list(dict.fromkeys(aliases))
    for key in {"items", "values"} & out.keys():
        out[key] = _spelled_out(out[key], namespace)
    if "fields" in out:
        out["fields"] = [
            {
                "order": "ascending",
                **field,
                "aliases": list(dict.fromkeys(field.get("aliases", ()))),
                "type": _spelled_out(field["type"], namespace),
            }
            for field in out["fields"]
        ]
    return out["type"] if out.keys() == {"type"} else out


def _full(name: str, namespace: str, *, names: bool = False) -> str:
    primitive = name in {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
    return (
        name if "." in name or not namespace or (primitive and not names) else f"{namespace}.{name}"
    )


A = '{"type":"record","name":"n.A","fields":[{"name":"x","type":"int"}]}'
B = '{"type":"record","name":"n.B","fields":[{"name":"a","type":"A"},{"name":"b","type":"A"}]}'


def test_references_are_named_in_the_text_and_written_out_when_resolved() -> None:
    schema = parse('{"type":"array","items":"n.B"}', (A, B))
    assert schema.text == '{"type":"array","items":"n.B"}'
    written = parse(B, (A,)).resolved_text
    assert '{"name":"b","type":"A"}' in written
    assert schema.resolved_text == f'{{"type":"array","items":{written}}}'
    assert schema.references == (A, B)


def _chain(length: int) -> str:
    """Records side by side, each of which names the next."""
    records: list[Any] = [
        {"type": "record", "name": f"R{i}", "fields": [{"name": "next", "type": f"R{i + 1}"}]}
        for i in range(length)
    ]
    return json.dumps([*records, {"type": "fixed", "name": f"R{length}", "size": 1}])


def _depth(schema: AvroSchema) -> int:
    depth = deepest = 0
    for character in schema.text:
        depth += (character in "[{") - (character in "]}")
        deepest = max(depth, deepest)
    return deepest


def test_types_that_name_each_other_are_nested_no_deeper_than_texts_may_be() -> None:
    longest = (MAX_DEPTH - 2) // 3
    assert _depth(parse(_chain(longest))) <= MAX_DEPTH
    for length in (longest + 1, 5_000):
        with pytest.raises(InvalidSchema, match="deeper than 200 levels"):
            parse(_chain(length))


def test_references_that_name_each_other_are_bounded_as_well() -> None:
    last = '{"type":"fixed","name":"R0","size":1}'
    chain = [last]
    for i in range(1, 80):
        field = {"name": "f", "type": f"R{i - 1}"}
        chain.append(json.dumps({"type": "record", "name": f"R{i}", "fields": [field]}))
    assert parse('"R60"', chain[:61]).text == '"R60"'
    with pytest.raises(InvalidSchema, match="deeper than 200 levels"):
        parse('"R79"', chain)

"""The objects of Apache's package say what the schema says."""

import json
import warnings
from collections.abc import Sequence
from typing import Any

import avro.schema
import pytest
from hypothesis import given

from schemas.parsing import parse
from tests.schemas.avro_strategies import schemas
from tests.schemas.golden_schemas import cases, every_file


@given(schemas())
def test_they_are_those_that_apaches_parser_makes(value: Any) -> None:
    """Where there is no empty namespace, which it takes for the one around it."""
    text = parse(json.dumps(value)).text
    if '"namespace":""' in text:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of logical types that it does not know
        theirs = avro.schema.parse(text)
    _assert_alike(parse(text).parsed, theirs, set())


def _assert_alike(ours: Any, theirs: Any, seen: set[int]) -> None:
    assert type(ours) is type(theirs)
    assert ours.type == theirs.type
    if id(ours) in seen:
        return
    seen.add(id(ours))
    match ours:
        case avro.schema.NamedSchema():
            assert (ours.fullname, ours.namespace) == (theirs.fullname, theirs.namespace)
            assert _names(ours) == _names(theirs)
    match ours:
        case avro.schema.RecordSchema():
            assert [field.name for field in ours.fields] == [field.name for field in theirs.fields]
            for one, other in zip(ours.fields, theirs.fields, strict=True):
                assert (one.has_default, one.default) == (other.has_default, other.default)
                assert (one.doc, one.props.get("aliases")) == (
                    other.doc,
                    other.props.get("aliases"),
                )
                _assert_alike(one.type, other.type, seen)
        case avro.schema.ArraySchema():
            _assert_alike(ours.items, theirs.items, seen)
        case avro.schema.MapSchema():
            _assert_alike(ours.values, theirs.values, seen)
        case avro.schema.UnionSchema():
            for one, other in zip(ours.schemas, theirs.schemas, strict=True):
                _assert_alike(one, other, seen)
        case avro.schema.EnumSchema():
            assert (ours.symbols, ours.default) == (theirs.symbols, theirs.default)
        case avro.schema.FixedSchema():
            assert ours.size == theirs.size


def _names(schema: Any) -> set[str]:
    """Its aliases in full: Apache keeps them as they were written."""
    space = schema.namespace
    return {
        alias if "." in alias or not space else f"{space}.{alias}"
        for alias in schema.props.get("aliases", ())
    }


@every_file
def test_every_schema_that_java_takes_can_be_had_without_a_warning(file: str) -> None:
    for case in cases(file, accepted=True):
        schema = parse(case.input, case.references, strict=case.strict)
        assert getattr(schema.parsed, "fullname", None) == (
            schema.full_name or getattr(schema.parsed, "fullname", None)
        )


def test_types_without_a_namespace_inside_one_are_found() -> None:
    inner = '{"type":"record","name":"B","namespace":"","fields":[]}'
    fields = f'[{{"name":"a","type":{inner}}},{{"name":"b","type":"B"}}]'
    text = f'{{"type":"record","name":"n.A","fields":{fields}}}'
    first, second = _fields(parse(text).parsed)
    assert first.type is second.type
    assert first.type.fullname == "B"
    assert _fields(avro.schema.parse(text))[0].type.fullname == "n.B"  # which is wrong


def _fields(schema: avro.schema.Schema) -> Sequence[Any]:
    assert isinstance(schema, avro.schema.RecordSchema)
    return list(schema.fields)


def test_a_record_can_contain_itself() -> None:
    text = '{"type":"record","name":"n.List","fields":[{"name":"next","type":["null","List"]}]}'
    record = parse(text).parsed
    assert _fields(record)[0].type.schemas[1] is record


@pytest.mark.parametrize(
    ("logical", "over", "kept"),
    [
        ("timestamp-millis", "long", True),
        ("timestamp-millis", "int", False),
        ("timestamp-nanos", "long", False),  # Apache warns of it
        ("nope", "int", False),
    ],
)
def test_logical_types_are_there_where_apache_knows_them(
    logical: str, over: str, kept: bool
) -> None:
    schema = parse(json.dumps({"type": over, "logicalType": logical})).parsed
    assert (schema.props.get("logicalType") == logical) is kept

"""One form for schemas that differ in nothing but how they are written: Confluent's normal form,
and the canonical form that fingerprints are of."""

import json
import random
from typing import Any

import fastavro.schema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.parsing import parse
from tests.schemas.avro_strategies import schemas


@given(schemas(), st.randoms(use_true_random=False))
def test_it_says_the_same_in_one_way(value: Any, dice: random.Random) -> None:
    schema = parse(json.dumps(value))
    normal = schema.normalized()
    assert normal.canonical_form == schema.canonical_form
    assert normal.normalized() == normal
    again = parse(normal.text)
    assert again == normal
    assert again.normalized() == normal
    assert parse(json.dumps(_shuffled(value, dice))).normalized() == normal


def _shuffled(value: Any, dice: random.Random) -> Any:
    if isinstance(value, list):
        return [_shuffled(each, dice) for each in value]
    if isinstance(value, dict):
        keys = sorted(value)
        dice.shuffle(keys)
        return {key: _shuffled(value[key], dice) for key in keys}
    return value


@pytest.mark.parametrize(
    ("type_", "default", "normal"),
    [
        ('"double"', "1", "1.0"),
        ('"float"', "16777217", "1.6777216E7"),
        ('"float"', "0.1", "0.1"),
        ('"float"', "0.30000000001", "0.3"),
        ('"long"', "1", "1"),
        ('["null","int"]', "1", "1"),
        ('["double","null"]', "1", "1.0"),
        ('["null","double"]', "1", "1"),
        ('{"type":"map","values":"double"}', '{"b":1,"a":2}', '{"a":2.0,"b":1.0}'),
        ('"bytes"', '"\\u00ff\\u0100"', '"ÿ?"'),
    ],
)
def test_defaults_are_written_as_their_types_have_them(
    type_: str, default: str, normal: str
) -> None:
    text = '{"type":"record","name":"A","fields":[{"name":"a","type":%s,"default":%s}]}'
    assert parse(text % (type_, default)).normalized().text == text % (type_, normal)


def test_types_that_are_only_referred_to_are_not_touched() -> None:
    reference = '{"type":"record","name":"B","doc":"","fields":[],"z":1,"a":2}'
    schema = parse('{"type":"array","items":"B","z":1,"a":2}', (reference,)).normalized()
    assert schema.text == '{"type":"array","items":"B","a":2,"z":1}'
    assert '"z":1,"a":2}' in schema.resolved_text


# The canonical form


@given(schemas())
def test_fastavro_comes_to_the_same(value: Any) -> None:
    schema = parse(json.dumps(value))
    form = fastavro.schema.to_parsing_canonical_form(json.loads(schema.text))
    assert schema.canonical_form == form
    assert schema.fingerprint.hex() == fastavro.schema.fingerprint(form, "CRC-64-AVRO")

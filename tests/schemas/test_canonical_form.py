"""Canonical forms and fingerprints are those of Java and of fastavro."""

import json
from typing import Any

import avro.schema
import fastavro.schema
import pytest
from hypothesis import given

from schemas.parsing import parse
from tests.schemas.avro_strategies import schemas
from tests.schemas.golden_schemas import cases, every_file


@every_file
def test_fingerprints_are_javas(file: str) -> None:
    for case in cases(file, accepted=True):
        schema = parse(case.input, case.references, strict=case.strict)
        assert (case.input, schema.fingerprint.hex()) == (case.input, case.fingerprint)


@given(schemas())
def test_fastavro_comes_to_the_same(value: Any) -> None:
    schema = parse(json.dumps(value))
    form = fastavro.schema.to_parsing_canonical_form(json.loads(schema.text))
    assert schema.canonical_form == form
    assert schema.fingerprint.hex() == fastavro.schema.fingerprint(form, "CRC-64-AVRO")


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('{"type":"long","logicalType":"timestamp-millis"}', '"long"'),
        ('{"type":"string","avro.java.string":"String"}', '"string"'),
    ],
)
def test_why_apaches_form_is_not_taken(text: str, form: str) -> None:
    """When it is right one day, so is its fingerprint, and ours can go."""
    assert parse(text).canonical_form == form
    assert avro.schema.parse(text).canonical_form != form

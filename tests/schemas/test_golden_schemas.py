"""A thousand schemas as Java has them: their text, character by character, the normal form, the
fingerprint; and what is no schema to Java is none to us. See golden/README.md."""

import pytest

from schemas.errors import InvalidSchema
from schemas.parsing import parse
from tests.schemas.golden_schemas import Case, cases, every_file


@every_file
def test_a_schema_is_as_java_has_it(file: str) -> None:
    for case in cases(file, accepted=True):
        schema = parse(case.input, case.references, strict=case.strict)
        assert (case.input, schema.text) == (case.input, case.text)
        assert (case.input, schema.resolved_text) == (case.input, case.resolved)
        assert (case.input, schema.fingerprint.hex()) == (case.input, case.fingerprint)
        assert (case.input, schema.normalized().text) == (case.input, case.normalized)
        _check_read_again(case)


def _check_read_again(case: Case) -> None:
    """Its text, and its normal form, are those of the same schema."""
    schema = parse(case.input, case.references, strict=case.strict)
    again = parse(schema.text, case.references, strict=case.strict)
    assert again == schema
    assert again.fingerprint == schema.fingerprint
    assert parse(schema.resolved_text, strict=case.strict).text == schema.resolved_text
    normal = schema.normalized()
    assert normal.normalized() == normal
    assert parse(normal.text, case.references, strict=case.strict).normalized() == normal


@every_file
def test_what_java_refuses_is_refused(file: str) -> None:
    for case in cases(file, accepted=False):
        with pytest.raises(InvalidSchema) as refused:
            parse(case.input, case.references, strict=case.strict)
            pytest.fail(case.input)
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 600

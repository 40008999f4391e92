"""Every kind of change, judged as Java's `SchemaCompatibility` judged it.

compatibility/README.md says how the table was recorded.
"""

import json
from typing import Any

from schemas.evolution.incompatibilities import (
    Incompatibility,
    IncompatibilityKind,
    incompatibilities,
)
from schemas.parsing import parse
from tests.schemas.compatibility_tables import each_of, table

PAIRS = table("pairs")


def judged(reader: Any, writer: Any) -> list[Incompatibility]:
    return incompatibilities(parse(json.dumps(reader)).type, parse(json.dumps(writer)).type)


@each_of(PAIRS)
def test_as_java_judges(case: dict[str, Any]) -> None:
    found = judged(case["reader"], case["writer"])
    if "exception" in case:
        assert [each.kind for each in found] == [IncompatibilityKind.AMBIGUOUS_FIELD]
        assert case["exception"] == f"AvroRuntimeException: {found[0].detail}"
    else:
        assert found == [Incompatibility(**each) for each in case["incompatibilities"]]


@each_of(PAIRS)
def test_a_schema_reads_what_it_wrote(case: dict[str, Any]) -> None:
    if "exception" not in case:
        assert judged(case["reader"], case["reader"]) == []

"""Every kind of change, judged as Java's `SchemaCompatibility` judged it.

compatibility/README.md says how the table was recorded.
"""

import json
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas.evolution.incompatibilities import (
    Incompatibility,
    IncompatibilityKind,
    incompatibilities,
)
from schemas.parsing import parse
from tests.schemas.compatibility_tables import each_of, table
from tests.schemas.schema_pairs import Pair

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


def test_the_table_has_every_kind_both_ways() -> None:
    kinds = {each["kind"] for pair in PAIRS for each in pair.get("incompatibilities", ())}
    assert kinds == set(IncompatibilityKind) - {
        IncompatibilityKind.AMBIGUOUS_FIELD,
        IncompatibilityKind.NOT_JUDGED,
        IncompatibilityKind.MORE,
    }
    compatible = sum(not pair.get("incompatibilities", True) for pair in PAIRS)
    assert len(PAIRS) > 600
    assert 200 < compatible < len(PAIRS) - 300


@given(seed=st.integers(0, 2**48))
def test_a_schema_reads_what_it_wrote(seed: int) -> None:
    text = json.dumps(Pair(Random(seed), size=6).text())
    assert incompatibilities(parse(text).type, parse(text).type) == []

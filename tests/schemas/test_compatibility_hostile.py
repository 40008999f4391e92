"""Schemas made to take long, to need much memory, or to go deep. Work is counted, not timed.

What Java and Apache's Python package do with them: recurse as deep as they go, compare every branch
with every other, list a type as often as it can be reached.
"""

import json
from typing import Any

import pytest

from schemas.compatibility import Level, explain, messages
from schemas.definitions.types import Type, Union
from schemas.evolution.explanations import Side, explanations
from schemas.evolution.findings import (
    LONGEST_DETAIL,
    MOST_CHARACTERS,
    MOST_EFFORT,
    MOST_FINDINGS,
    MOST_STEPS,
    Below,
    Effort,
    Found,
    FoundBelow,
    IncompatibilityKind,
    written_out,
)
from schemas.evolution.incompatibilities import incompatibilities, judge
from schemas.parsing import parse

NOTHING = parse('"null"').type


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    made = [{"name": field, "type": type_} for field, type_ in fields]
    return {"type": "record", "name": name, "fields": made}


def read(value: Any) -> Type:
    return parse(json.dumps(value)).type


def effort(reader: Any, writer: Any) -> int:
    """What it takes; there is a verdict."""
    allowed = Effort()
    found = written_out(judge(read(reader), read(writer), allowed))
    assert IncompatibilityKind.NOT_JUDGED not in [each.kind for each in found]
    return MOST_EFFORT - allowed.left


def wide(count: int, of: str) -> dict[str, Any]:
    return record("Wide", *((f"field{index}", of) for index in range(count)))


@pytest.mark.not_quick("measures time")
def test_ten_thousand_fields_take_ten_times_what_a_thousand_take() -> None:
    assert effort(wide(10_000, "long"), wide(10_000, "int")) < 11 * effort(
        wide(1_000, "long"), wide(1_000, "int")
    )


def branches(count: int, of: str, name: str = "R") -> list[dict[str, Any]]:
    return [record(f"{name}{i}", ("a", of), ("b", of), ("c", of)) for i in range(count)]


@pytest.mark.not_quick("measures time")
@pytest.mark.parametrize("other", ["R", "S"])
def test_a_thousand_branches_are_found_by_name(other: str) -> None:
    assert effort(branches(1_000, "long"), branches(1_000, "int", other)[::-1]) < 20_000


@pytest.mark.not_quick("goes as far as a bound on effort")
def test_a_thousand_branches_of_one_simple_name_are_not_compared_to_the_end() -> None:
    old, new = (
        [record(f"n{i}.R", *((f"f{j}", of) for j in range(8))) for i in range(1_000)]
        for of in ("int", "string")
    )
    (line, *_) = messages(Level.BACKWARD, parse(json.dumps(new)), [(1, parse(json.dumps(old)))])
    assert line.startswith("{errorType:'NOT_JUDGED', description:'The new schema could not be")


def test_the_effort_is_bounded() -> None:
    found = judge(read(wide(50, "long")), read(wide(50, "int")), Effort(20))
    (listed,) = written_out(found)
    assert listed.kind == IncompatibilityKind.NOT_JUDGED
    (sentence,) = explanations(found, Side("this schema", is_new=True), Side("version 1"))
    assert sentence.startswith("the schema (at /): is too large, or too entangled, to be compared")


def doubling(levels: int, of: str) -> Any:
    """Each type has two fields of the one before: 2^levels ways lead to the first."""
    types = [record("T0", ("x", of))]
    types += [record(f"T{i}", ("a", f"T{i - 1}"), ("b", f"T{i - 1}")) for i in range(1, levels)]
    all_of_them = {"type": "map", "values": types}
    return record("Top", ("all", all_of_them), ("last", f"T{levels - 1}"))


def test_a_type_that_can_be_reached_in_many_ways_is_judged_once() -> None:
    assert effort(doubling(60, "long"), doubling(60, "int")) < 6_000
    assert effort(doubling(60, "string"), doubling(60, "int")) < 6_000


def test_what_is_found_in_many_ways_is_listed_as_often_as_anybody_can_read() -> None:
    found = incompatibilities(read(doubling(60, "string")), read(doubling(60, "int")))
    assert len(found) == MOST_FINDINGS + 1
    assert found[-1].kind == IncompatibilityKind.MORE
    one, other = parse(json.dumps(doubling(60, "int"))), parse(json.dumps(doubling(60, "string")))
    assert sum(map(len, messages(Level.FULL, one, [(1, other)]))) < 6 * MOST_CHARACTERS
    assert len(explain(Level.FULL, one, [(1, other)])) < 300


def entangled(count: int, of: str) -> Any:
    """Every record has a field that may be any of them."""
    made: Any = [f"E{index}" for index in range(count)]
    for index in reversed(range(count)):
        before = [f"E{other}" for other in range(count) if other != index + 1]
        inner = [made, *before] if index + 1 < count else made
        made = record(f"E{index}", ("value", of), ("next", inner))
    return made


@pytest.mark.not_quick("goes as far as a bound on effort")
def test_records_that_lead_to_each_other_in_every_way() -> None:
    assert effort(entangled(20, "long"), entangled(20, "int")) < 20_000
    assert effort(entangled(20, "string"), entangled(20, "int")) < 20_000


def long_chain(length: int, of: str) -> Any:
    """No text is nested, but the types are: each is the field of the next, the last comes first."""
    types = [record("C0", ("x", of))]
    types += [record(f"C{i}", ("x", f"C{i - 1}")) for i in range(1, length)]
    return types


def chain(length: int, of: str) -> Type:
    """Its last record, as deep below which there are others as no text may be."""
    types = read(long_chain(length, of))
    assert isinstance(types, Union)
    return types.branches[-1]


def test_nothing_calls_itself() -> None:
    assert incompatibilities(chain(900, "long"), chain(900, "int")) == []
    (found,) = incompatibilities(chain(900, "string"), chain(900, "int"))
    assert found.path.startswith("/…/")
    assert found.path.endswith("/fields/0/type")
    assert len(found.path) < 4_000


def test_not_all_of_many_symbols_are_listed() -> None:
    symbols = [f"Symbol{index}" for index in range(20_000)]
    old = {"type": "enum", "name": "E", "symbols": ["A", *symbols]}
    new = {"type": "enum", "name": "E", "symbols": ["A"]}
    (found,) = incompatibilities(read(new), read(old))
    assert found.detail.startswith("[Symbol0, Symbol1, Symbol10, Symbol100, Symbol1000, ")
    assert len(found.detail) == LONGEST_DETAIL


def test_findings_with_much_to_say_are_fewer() -> None:
    longest = FoundBelow(
        IncompatibilityKind.NAME_MISMATCH, None, (), "x" * 100_000, NOTHING, NOTHING
    )
    found = written_out([longest] * MOST_FINDINGS)
    assert sum(len(each.detail) for each in found) < MOST_CHARACTERS + 2 * LONGEST_DETAIL
    assert found[-1].kind == IncompatibilityKind.MORE


@pytest.mark.not_quick("goes as far as a bound on effort")
def test_there_is_an_end_to_walking_through_what_was_found() -> None:
    found: Found = [FoundBelow(IncompatibilityKind.NAME_MISMATCH, None, (), "", NOTHING, NOTHING)]
    for _ in range(MOST_STEPS):
        found = [Below(NOTHING, "", ("items",), found)]
    assert [each.kind for each in written_out(found)] == [IncompatibilityKind.MORE]
    assert len(explanations(found, Side("this schema", is_new=True), Side("version 1"))[0]) < 2_000

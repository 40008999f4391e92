"""Schemas that refer to others: the order of their references says nothing in a normal form."""

import asyncio
import json

import pytest

from registry.changes.registration import normalizes, register
from registry.errors import ErrorAnswer
from registry.http.resources.worker_threads import find_registered
from registry.requests import SchemaRequest
from registry.schemas_topic.contents import RegistryContents
from registry.schemas_topic.log_records import ConfigRecord, ModeRecord
from registry.schemas_topic.values import Config, Mode, Reference, Version

# In UTF-16, by which Java sorts, a letter beyond the first plane comes before this one.
PRIVATE, BEYOND = "\ue000", "\U00010000"


def a_record(name: str, **fields: str) -> str:
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return json.dumps({"type": "record", "name": name, "fields": listed})


def referring(*references: Reference) -> SchemaRequest:
    """One with a field of each type that is referred to."""
    names = sorted({reference.name for reference in references})
    fields = {f"of_{number}": name for number, name in enumerate(names)}
    return SchemaRequest(schema=a_record("Referring", **fields), references=references)


ONE = Reference("One", "one", 1)
TWO = Reference("Two", "two", 1)
ONE_AGAIN = Reference("One", "one", 2)


@pytest.fixture
def contents() -> RegistryContents:
    """Subjects `one`, with two versions, and `two`, with one."""
    contents = RegistryContents()
    put(contents, "one", SchemaRequest(schema=a_record("One")))
    put(contents, "one", SchemaRequest(schema='{"type":"record","name":"One","fields":[],"a":1}'))
    put(contents, "two", SchemaRequest(schema=a_record("Two")))
    return contents


def put(
    contents: RegistryContents, subject: str, request: SchemaRequest, *, normalize: bool = False
) -> Version:
    decision = register(contents, subject, request, normalize=normalize)
    for record in decision.records:
        contents.apply(contents.offset, record)
    return decision.answer


def find(contents: RegistryContents, subject: str, request: SchemaRequest) -> Version | None:
    return asyncio.run(find_registered(contents, subject, request, normalize=True))


def test_in_whatever_order_they_come_it_is_one_version(contents: RegistryContents) -> None:
    first = put(contents, "a", referring(TWO, ONE), normalize=True)
    second = put(contents, "a", referring(ONE, TWO), normalize=True)
    assert first == second
    assert first.references == (ONE, TWO)
    assert put(contents, "b", referring(ONE, TWO), normalize=True).id == first.id


def test_one_that_comes_twice_is_kept_once(contents: RegistryContents) -> None:
    version = put(contents, "a", referring(TWO, ONE, TWO), normalize=True)
    assert version.references == (ONE, TWO)
    latest = Reference("Two", "two", -1)
    assert put(contents, "a", referring(latest, TWO, ONE), normalize=True) == version


def test_what_was_not_to_be_normalized_is_left_alone(contents: RegistryContents) -> None:
    assert put(contents, "a", referring(TWO, ONE, TWO)).references == (TWO, ONE, TWO)
    assert put(contents, "b", referring(ONE, TWO)).references == (ONE, TWO)


def test_a_lookup_finds_it_in_whatever_order(contents: RegistryContents) -> None:
    version = put(contents, "a", referring(ONE, TWO))
    assert find(contents, "a", referring(TWO, ONE)) == version
    assert find(contents, "a", referring(TWO, ONE, ONE)) == version


def test_they_stand_by_subject_as_java_sorts_it_then_by_version(contents: RegistryContents) -> None:
    put(contents, PRIVATE, SchemaRequest(schema=a_record("P")))
    put(contents, BEYOND, SchemaRequest(schema=a_record("B")))
    ordered = (ONE, ONE_AGAIN, TWO, Reference("B", BEYOND, 1), Reference("P", PRIVATE, 1))
    request = referring(*reversed(ordered))
    assert put(contents, "a", request, normalize=True).references == ordered


def test_those_of_one_version_keep_the_order_in_which_they_came(contents: RegistryContents) -> None:
    """As in Confluent's registry, which does not compare their names."""
    put(contents, "pair", SchemaRequest(schema=a_record("Pair")))
    pair = (Reference("Pair", "pair", 1), Reference("Other", "pair", 1))
    request = SchemaRequest(schema=a_record("R", a="Pair", b="One"), references=(*pair, ONE))
    assert put(contents, "a", request, normalize=True).references == (ONE, *pair)


def test_of_two_of_one_name_the_first_that_is_stored_is_the_one_that_is_meant(
    contents: RegistryContents,
) -> None:
    """What is judged is what is read back later, from the references as they are stored."""
    put(contents, "zzz", SchemaRequest(schema=a_record("One", there="int")))
    request = SchemaRequest(
        schema='{"type":"record","name":"R","fields":[{"name":"a","type":"One","default":{}}]}',
        references=(Reference("One", "zzz", 1), ONE),
    )
    assert put(contents, "a", request, normalize=True).references[0] == ONE
    with pytest.raises(ErrorAnswer) as refused:
        put(contents, "b", request)
    assert refused.value.code == 42201


def test_a_schema_has_no_more_references_than_can_be_looked_for(contents: RegistryContents) -> None:
    latest = Reference("One", "one", -1)
    put(contents, "a", referring(*[latest] * 10_000))
    with pytest.raises(ErrorAnswer) as refused:
        put(contents, "a", referring(*[latest] * 10_001))
    assert refused.value.code == 42201
    assert "too many or too large references" in refused.value.message


@pytest.mark.parametrize("subject", ["a", None])
def test_a_setting_says_so_for_a_subject_or_for_all(
    contents: RegistryContents, subject: str
) -> None:
    assert not normalizes(contents, "a", asked=False)
    contents.take(ConfigRecord(subject, Config(normalize=True)))
    assert normalizes(contents, "a", asked=False)


def test_what_is_imported_is_not_normalized(contents: RegistryContents) -> None:
    contents.take(ModeRecord("a", Mode.IMPORT))
    assert not normalizes(contents, "a", asked=True)
    request = SchemaRequest(schema=referring(TWO, ONE).schema, references=(TWO, ONE), id=77)
    assert put(contents, "a", request, normalize=True).references == (TWO, ONE)


def test_the_schema_before_it_is_taken_with_its_references_in_order(
    contents: RegistryContents,
) -> None:
    before = put(contents, "a", referring(TWO, ONE))
    changed = SchemaRequest(version=before.version + 1)
    assert put(contents, "a", changed, normalize=True).references == (ONE, TWO)

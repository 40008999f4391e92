"""The schemas that come with Penstock, what makes a schema that of an event, and new ones."""

import copy
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import fastavro
import pytest

from schemas.envelope import Decoder, Encoder
from schemas.errors import InvalidSchema, NotAnEvent
from schemas.event_schemas import (
    ACCESS_LINE,
    BUILT_IN,
    DEAD_LETTER,
    HAPROXY_LINE,
    HEADER,
    LEDGER,
    LOG_LINE,
    POSTGRESQL_LINE,
    SYSLOG_LINE,
    built_in,
    check_event_schema,
    scaffold,
)
from schemas.evolution.incompatibilities import incompatibilities
from schemas.parsing import AvroSchema, parse
from tests.schemas.events import EVENTS, header

FILES = files("schemas") / "avro"
HEADER_TEXT = json.loads((FILES / "EventHeader.avsc").read_text())
FIELDS = [each["name"] for each in HEADER_TEXT["fields"]]


def event(*fields: Any, **changed: Any) -> AvroSchema:
    first = {"name": "header", "type": HEADER_TEXT}
    return parse(
        json.dumps({"type": "record", "name": "shop.Order", "fields": [first, *fields]} | changed)
    )


def with_header(fields: list[Any], **changed: Any) -> AvroSchema:
    return event(fields=[{"name": "header", "type": HEADER_TEXT | {"fields": fields} | changed}])


# The built-in ones.


def test_the_files_are_the_built_in_schemas() -> None:
    names = {f"penstock.{each.name.removesuffix('.avsc')}" for each in FILES.iterdir()}
    assert names == set(BUILT_IN)
    assert {built_in(name).full_name for name in BUILT_IN} == names
    with pytest.raises(LookupError, match=r"^penstock.Header is not one of penstock.EventHeader"):
        built_in("penstock.Header")


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_schema_stands_alone(name: str) -> None:
    schema = built_in(name)
    assert schema.references == ()
    assert parse(schema.text).text == schema.text == schema.resolved_text
    assert schema.text.count('"name":"EventHeader"') == 1


def test_the_header_is_defined_in_one_file() -> None:
    defined = [each.name for each in FILES.iterdir() if '"EventHeader"' in each.read_text()]
    assert defined == ["EventHeader.avsc"]


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != HEADER])
def test_a_built_in_schema_is_an_event(name: str) -> None:
    check_event_schema(built_in(name))


def test_the_header_is_as_it_was_designed() -> None:
    """Whatever was written with it lies in files for years."""
    assert [(each["name"], each["type"]) for each in HEADER_TEXT["fields"]] == [
        ("time", {"type": "long", "logicalType": "timestamp-millis"}),
        ("host", "string"),
        ("app", "string"),
        ("source", "string"),
        ("seq", "long"),
        ("position", "long"),
    ]


@pytest.mark.parametrize(
    ("name", "fingerprint"),
    [
        (HEADER, "32e13c398d1fcb5a"),
        (LOG_LINE, "2b11313435d00d25"),
        (SYSLOG_LINE, "b97667542d5eb998"),
        (ACCESS_LINE, "18ad8b77353b28da"),
        (HAPROXY_LINE, "dbb2fb5ff0b70b08"),
        (POSTGRESQL_LINE, "3e6a5d059c8f5358"),
        (DEAD_LETTER, "deb800d625c9353b"),
        (LEDGER, "e3c9c42ca1cf5db8"),
    ],
)
def test_a_built_in_schema_does_not_change_unnoticed(name: str, fingerprint: str) -> None:
    """Whoever changes one on purpose sees to it that old and new programs read each other."""
    schema = built_in(name)
    assert schema.fingerprint.hex() == fingerprint
    form = fastavro.schema.to_parsing_canonical_form(json.loads(schema.text))
    assert fastavro.schema.fingerprint(form, "CRC-64-AVRO") == fingerprint


@pytest.mark.parametrize("name", BUILT_IN)
def test_everything_in_a_built_in_schema_is_documented(name: str) -> None:
    text = json.loads(built_in(name).text)
    undocumented = [each["name"] for each in parts(text) if not each.get("doc", "").endswith(".")]
    assert undocumented == []


def parts(text: Any) -> Iterator[dict[str, Any]]:
    """The types that have a name, and the fields."""
    if isinstance(text, list):
        for each in text:
            yield from parts(each)
    elif isinstance(text, dict):
        if "name" in text:
            yield text
        for key in ("type", "items", "values", "fields"):
            yield from parts(text.get(key))


# What makes the ledger grow without breaking those who read it.


def test_what_a_ledger_entry_does_not_say_takes_a_byte_or_two() -> None:
    entry = {"header": header(), "version": 1, "tier": "agent", "cluster": "dc1"}
    alone = Encoder(built_in(LEDGER), 1).encode(entry)
    with_header = Encoder(built_in(HEADER), 1).encode(header())
    assert len(alone) - len(with_header) <= 28
    heartbeat = entry | {"heartbeats": [{"until": header()["time"]}]}
    assert len(Encoder(built_in(LEDGER), 1).encode(heartbeat)) - len(alone) <= 11


def test_every_statement_of_the_ledger_may_be_left_out() -> None:
    fields = json.loads(built_in(LEDGER).text)["fields"]
    required = [each["name"] for each in fields if "default" not in each]
    assert required == ["header", "version", "tier", "cluster"]
    enums = [each for each in parts(fields) if each["type"] == "enum"]
    assert {each["name"]: each["default"] for each in enums} == {
        "Tier": "unknown",
        "Fate": "other",
        "WhatIsWrong": "other",
        "Traces": "other",
        "Alteration": "other",
        "ProblemKind": "other",
    }


def test_old_and_new_programs_read_each_others_ledger() -> None:
    """A field more at every level, a symbol more: as the next version may have them."""
    old = built_in(LEDGER)
    text = json.loads(old.text)
    for each in list(parts(text)):
        if each.get("fields"):
            each["fields"].append({"name": "more", "type": "long", "default": 7})
        if "symbols" in each:
            each["symbols"].append("new")
    new = parse(json.dumps(text))
    check_event_schema(new)
    for reader, writer in ((new, old), (old, new)):
        assert incompatibilities(reader.type, writer.type) == []

    entry = copy.deepcopy(EVENTS["Ledger"])
    read = Decoder(lambda _: old, new).decode(Encoder(old, 1).encode(entry))
    assert (read["more"], read["passages"][0]["windows"][0]["more"]) == (7, 7)
    entry["tier"] = entry["passages"][0]["runs"][0]["excepted"][0]["fate"] = "new"
    read = Decoder(lambda _: new, old).decode(Encoder(new, 1).encode(entry))
    assert read["tier"] == "unknown"
    assert read["passages"][0]["runs"][0]["excepted"][0]["fate"] == "other"


# What an event is.


def test_an_event_has_the_header_first() -> None:
    check_event_schema(event())
    check_event_schema(event({"name": "total", "type": "double"}))
    check_event_schema(parse(event().text))


def test_a_later_header_may_have_more_fields_with_defaults() -> None:
    zone = {"name": "zone", "type": "string", "default": ""}
    check_event_schema(with_header([*HEADER_TEXT["fields"], zone]))
    del zone["default"]
    with pytest.raises(NotAnEvent, match=r"^header.zone: only time, host, app, source, seq, pos"):
        check_event_schema(with_header([*HEADER_TEXT["fields"], zone]))


def test_a_header_may_be_referred_to() -> None:
    fields = [{"name": "header", "type": HEADER}]
    text = json.dumps({"type": "record", "name": "shop.Order", "fields": fields})
    check_event_schema(parse(text, [json.dumps(HEADER_TEXT)]))


NO_RECORD = "an event is a record, but this is of type"
NOT_FIRST = "the first field must be header, of type penstock.EventHeader; it is"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("string", f"{NO_RECORD} string"),
        (["null", "string"], f"{NO_RECORD} null or string"),
        ({"type": "enum", "name": "a.E", "symbols": ["A"]}, f"{NO_RECORD} enum a.E"),
        ({"type": "error", "name": "E", "fields": []}, f"{NO_RECORD} error E"),
        ({"type": "record", "name": "R", "fields": []}, f"{NOT_FIRST} missing"),
        (HEADER_TEXT, f"{NOT_FIRST} time"),
    ],
)
def test_what_has_no_header_is_no_event(text: Any, why: str) -> None:
    with pytest.raises(NotAnEvent) as refused:
        check_event_schema(parse(json.dumps(text)))
    assert str(refused.value) == why


def test_the_header_comes_first() -> None:
    late = event(fields=[{"name": "a", "type": "int"}, {"name": "header", "type": HEADER_TEXT}])
    with pytest.raises(NotAnEvent, match=f"^{NOT_FIRST} a$"):
        check_event_schema(late)


@pytest.mark.parametrize(
    ("of", "what"),
    [
        ("string", "string"),
        (["null", HEADER_TEXT], f"null or record {HEADER}"),
        ({"type": "map", "values": HEADER_TEXT}, f"map of record {HEADER}"),
        (HEADER_TEXT | {"name": "Header"}, "record penstock.Header"),
        (HEADER_TEXT | {"namespace": "shop"}, "record shop.EventHeader"),
    ],
)
def test_another_type_by_the_name_of_header_is_none(of: Any, what: str) -> None:
    with pytest.raises(NotAnEvent) as refused:
        check_event_schema(event(fields=[{"name": "header", "type": of}]))
    assert str(refused.value) == f"header: the header must be of type {HEADER}; it is {what}"


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_of_the_header_must_be_there(name: str) -> None:
    rest = [each for each in HEADER_TEXT["fields"] if each["name"] != name]
    with pytest.raises(NotAnEvent, match=f"^header.{name}: the field is missing$"):
        check_event_schema(with_header(rest))


@pytest.mark.parametrize("place", range(len(FIELDS) - 1))
def test_the_fields_of_the_header_keep_their_order(place: int) -> None:
    fields = list(HEADER_TEXT["fields"])
    fields[place], fields[-1] = fields[-1], fields[place]
    with pytest.raises(NotAnEvent, match=f"^header.{FIELDS[place]}: the field position is in"):
        check_event_schema(with_header(fields))


@pytest.mark.parametrize(
    ("name", "of", "wrong"),
    [
        ("time", "long", "must be long (timestamp-millis); it is long"),
        (
            "time",
            {"type": "long", "logicalType": "timestamp-micros"},
            "must be long (timestamp-millis); it is long (timestamp-micros)",
        ),
        ("host", ["null", "string"], "must be string; it is null or string"),
        ("host", {"type": "string", "logicalType": "uuid"}, "must be string; it is string (uuid)"),
        ("seq", "int", "must be long; it is int"),
        ("position", "double", "must be long; it is double"),
    ],
)
def test_the_fields_of_the_header_keep_their_types(name: str, of: Any, wrong: str) -> None:
    fields = [
        each | {"type": of} if each["name"] == name else each for each in HEADER_TEXT["fields"]
    ]
    with pytest.raises(NotAnEvent) as refused:
        check_event_schema(with_header(fields))
    assert str(refused.value) == f"header.{name}: the field {wrong}"


# New ones.


def test_a_new_schema_is_an_event_with_an_example() -> None:
    text = scaffold("shop.PageView")
    assert text.endswith("}\n")
    schema = parse(text)
    check_event_schema(schema)
    assert schema.full_name == "shop.PageView"
    written = json.loads(text)
    assert [each["name"] for each in written["fields"]] == ["header", "message"]
    assert written["fields"][0]["type"] == HEADER_TEXT
    assert [each["name"] for each in parts(written) if not each.get("doc")] == []
    line = {"header": header(), "message": "hello"}
    assert Decoder(lambda _: schema).decode(Encoder(schema, 1).encode(line)) == line


def test_a_new_schema_has_the_fields_that_were_asked_for() -> None:
    items = {"type": "array", "items": "string"}
    text = scaffold(
        "Order", {"total": "double", "coupon": ["null", "string"], "items": items}, "An order."
    )
    written = json.loads(text)
    assert (written["name"], written["doc"]) == ("Order", "An order.")
    assert "namespace" not in written
    kept = [(each["name"], each["type"], each.get("default", "none")) for each in written["fields"]]
    assert kept[1:] == [
        ("total", "double", "none"),
        ("coupon", ["null", "string"], None),
        ("items", items, "none"),
    ]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("page-view", None),
        ("", None),
        ("shop.", None),
        ("shop.Order", {"a b": "int"}),
        ("shop.Order", {"total": "money"}),
        ("shop.Order", {"header": "string"}),
        (HEADER, None),
    ],
)
def test_a_new_schema_that_could_not_be_is_refused(name: str, fields: Any) -> None:
    with pytest.raises(InvalidSchema):
        scaffold(name, fields)

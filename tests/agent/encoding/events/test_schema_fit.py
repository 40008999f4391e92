"""An input and the schema of its topic: what fits, and what is refused before a line is read."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.accounting.runs import Fate
from agent.configuration.inputs import Format, UnknownFields
from agent.configuration.lines import Filter, Time
from agent.encoding.bodies.json_tails import JsonTails
from agent.encoding.bodies.tail_encoder import TailEncoder
from agent.encoding.events.event_rules import Made, Make, OneByOne, Rules, When
from agent.encoding.events.fields import fields_of_json
from agent.encoding.events.filtering import Filters
from agent.encoding.events.plan import JsonColumns
from agent.encoding.events.schema_fit import is_plain
from agent.encoding.events.times import time_reader
from agent.encoding.lines.messages import Messages
from agent.errors import InputError
from schemas.event_schemas import DEAD_LETTER, HEADER, LOG_LINE, built_in
from schemas.parsing import AvroSchema, parse
from tests.agent.encoding.events.reading import NOW, read, reader_of, schema_of

TEXT = schema_of(message="string")
EXTRA = schema_of(a="long", extra=({"type": "map", "values": "string"}, {}))


def test_which_schema_is_plain() -> None:
    assert is_plain(None)
    assert is_plain(built_in(LOG_LINE))
    assert not is_plain(built_in(DEAD_LETTER))
    assert not is_plain(TEXT)
    assert not is_plain(parse('"string"'))
    grown = json.loads(built_in(LOG_LINE).resolved_text)
    grown["fields"][0]["type"]["fields"].append({"name": "zone", "type": "int", "default": 0})
    assert not is_plain(parse(json.dumps(grown))), "a header with more fields is not today's"
    assert reader_of(built_in(LOG_LINE)).plain
    assert not reader_of(TEXT).plain


@pytest.mark.parametrize(
    ("schema", "given", "said"),
    [
        (None, {"format": Format.JSON}, "`format: json` needs a schema"),
        (parse('"string"'), {}, "the schema of logs: an event is a record"),
        (built_in(HEADER), {"format": Format.JSON}, "the first field must be header"),
        (schema_of(user="string"), {}, "requires a field user, which lines of `format: plain`"),
        (
            schema_of(user="string"),
            {"format": Format.REGEX, "pattern": "(?P<level>x)"},
            "requires a field user, which lines of `format: regex`",
        ),
        (
            built_in(LOG_LINE),
            {"format": Format.REGEX, "pattern": "(?P<level>x)"},
            "requires a field message, which lines of `format: regex`",
        ),
        (TEXT, {"format": Format.JSON, "add_fields": {"dc": "x"}}, "`add_fields`: the schema has"),
        (
            schema_of(n="int"),
            {"format": Format.JSON, "add_fields": {"n": "many"}},
            "`add_fields`: n: 'many' is not an int",
        ),
        (None, {"format": Format.CRI, "add_fields": {"n": 1}}, "`add_fields` needs a schema"),
        (
            TEXT,
            {"format": Format.JSON, "unknown_fields": UnknownFields.KEEP},
            "needs a field `extra` in the schema, a map of strings",
        ),
        (
            schema_of(a="long", extra="string"),
            {"format": Format.JSON, "unknown_fields": UnknownFields.KEEP},
            "needs a field `extra` in the schema, a map of strings",
        ),
        (
            built_in(LOG_LINE),
            {"format": Format.JSON, "unknown_fields": UnknownFields.KEEP},
            "`unknown_fields: keep` needs a schema with fields",
        ),
        (
            None,
            {"format": Format.SYSLOG, "partition_by": "field:user"},
            "`partition_by`: lines of `format: syslog` have no field user",
        ),
        (
            TEXT,
            {"format": Format.JSON, "time": Time(field="message"), "add_fields": {"message": "x"}},
            "`time`: message is one of `add_fields`",
        ),
        (
            TEXT,
            {"format": Format.REGEX, "pattern": "(?P<message>x)", "time": Time(field="at")},
            "`time`: lines of `format: regex` have no field at",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(
    schema: AvroSchema | None, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        reader_of(schema, **given)
    assert str(caught.value).startswith("logs: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_plain_lines_fit_into_a_schema_with_a_message() -> None:
    schema = schema_of(message="string", level=("string", "?"))
    assert read(reader_of(schema), "ü\n".encode()).bodies == [b"\x04\xc3\xbc\x02?"]


def test_lines_with_a_message_fit_into_the_plain_schema() -> None:
    reader = reader_of(built_in(LOG_LINE), format=Format.JSON, time=Time(field="t"))
    lines = b'{"message": "a", "t": "2026-11-20T14:00:00Z"}\n{"t": "2026-11-20T14:00:00Z"}\n'
    outcome = read(reader, lines)
    assert outcome.bodies == [b"a"]
    assert [dead.reason for dead in outcome.dead] == ["message: it is missing"]


def test_fields_are_added_whatever_a_line_says() -> None:
    schema = schema_of(a="long", dc="string")
    for format_, line in ((Format.JSON, b'{"a": 1, "dc": "forged"}\n'), (Format.LOGFMT, b"a=1\n")):
        reader = reader_of(schema, format=format_, add_fields={"dc": "z"}, partition_by="field:dc")
        outcome = read(reader, line)
        assert outcome.bodies == [b"\x02\x02z"]
        assert outcome.events[0][3] == b"z"


@pytest.mark.parametrize("format_", [Format.JSON, Format.LOGFMT])
def test_unknown_fields(format_: Format) -> None:
    line = {
        Format.JSON: b'{"a": 1, "b": [1, null], "c": "x"}\n{"a": 2}\n',
        Format.LOGFMT: b"a=1 b=[1,null] c=x\na=2\n",
    }[format_]
    dropped = read(reader_of(EXTRA, format=format_), line)
    assert dropped.bodies == [b"\x02\x00", b"\x04\x00"]
    kept = read(reader_of(EXTRA, format=format_, unknown_fields=UnknownFields.KEEP), line)
    assert kept.bodies == [b"\x02\x04\x02b\x10[1,null]\x02c\x02x\x00", b"\x04\x00"]
    dead = read(reader_of(EXTRA, format=format_, unknown_fields=UnknownFields.DEAD), line)
    assert dead.bodies == [b"\x04\x00"]
    assert dead.dead[0].reason == "the schema has no field 'b'"


def test_what_is_in_extra_already_stays_there() -> None:
    reader = reader_of(EXTRA, format=Format.JSON, unknown_fields=UnknownFields.KEEP)
    outcome = read(reader, b'{"a": 1, "extra": {"x": "y", "b": "own"}, "b": "unknown"}\n')
    assert outcome.bodies == [b"\x02\x04\x02x\x02y\x02b\x0eunknown\x00"]


def test_a_line_that_does_not_fit_is_a_dead_letter_that_says_why() -> None:
    schema = schema_of(n="int", who={"type": "array", "items": "long"})
    lines = (
        b'{"n": "x", "who": []}\n{"n": 1}\n{"n": 1, "who": [1, "y"]}\n'
        b'{"n": 3000000000, "who": []}\n'
    )
    outcome = read(reader_of(schema, format=Format.JSON), lines)
    assert outcome.bodies == []
    assert [dead.reason for dead in outcome.dead] == [
        "n: 'x' is not an int",
        "who: it is missing",
        "who[1]: 'y' is not a long",
        "n: 3000000000 is not a 32-bit int",
    ]
    assert outcome.excepted == {(Fate.DEAD_LETTERED, "schema"): 4}
    assert [dead.position for dead in outcome.dead] == [0, 22, 31, 57]


RENAMED = parse(
    json.dumps(
        {
            **json.loads(schema_of(user="string", plan=("string", "free")).text),
            "fields": [
                each | {"aliases": ["login"]} if each["name"] == "user" else each
                for each in json.loads(schema_of(user="string", plan=("string", "free")).text)[
                    "fields"
                ]
            ],
        }
    )
)


@pytest.mark.parametrize("unknown", UnknownFields)
@pytest.mark.parametrize(
    ("format_", "former", "today"),
    [
        (Format.JSON, b'{"login": "ada", "plan": "paid"}', b'{"user": "ada", "plan": "paid"}'),
        (Format.LOGFMT, b"login=ada plan=paid", b"user=ada plan=paid"),
    ],
)
def test_a_line_with_a_former_name_is_the_same_event(
    format_: Format, former: bytes, today: bytes, unknown: UnknownFields
) -> None:
    if unknown is UnknownFields.KEEP:
        return  # that needs a field `extra`
    reader = reader_of(RENAMED, format=format_, unknown_fields=unknown)
    outcome = read(reader, former + b"\n" + today + b"\n")
    assert outcome.dead == []
    assert len(outcome.bodies) == 2
    assert len(set(outcome.bodies)) == 1


def test_former_names_do_in_an_input_what_todays_do() -> None:
    by_pattern = reader_of(RENAMED, format=Format.REGEX, pattern="(?P<login>.*)")
    added = reader_of(RENAMED, format=Format.JSON, add_fields={"login": "ada"})
    assert read(by_pattern, b"ada\n").bodies == read(added, b"{}\n").bodies


# JSON taken column by column is JSON taken line by line

SCHEMA = schema_of(
    level=("string", "none"),
    n=["null", "long"],
    ok=["null", "boolean"],
    ratio=("double", 0.0),
    ts="string",
    tags=({"type": "array", "items": "string"}, []),
    dc="string",
)
ADDED = {"dc": "zurich"}
RULES = Rules(
    Filters([Filter(drop="drop"), Filter(drop="^7$", field="n"), Filter(drop="x", field="who.id")]),
    When("ts", time_reader(Time(field="ts"))),
    "level",
)
ASKED = ["ts", "n", "who.id", "who", "level"]

CARRIED = {*TailEncoder(SCHEMA).names, *ASKED}
LINE_BY_LINE = OneByOne(
    lambda line, _: fields_of_json(line), ADDED, RULES, TailEncoder(SCHEMA).encode, CARRIED
)
COLUMNS = JsonColumns(
    JsonTails(TailEncoder(SCHEMA), take=ASKED, constants=ADDED), ASKED, ADDED, RULES
)

TIMES = st.sampled_from(["2026-11-20T14:00:00.123Z", "2026-11-20T14:00:00Z", "1999-01-01", "no", 7])
VALUES = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, 7, 2**31, 2**63, 2**64, -1, 1.5, 7.0, "7", "true", "", "-", "drop"])
    | st.lists(st.sampled_from(["a", 1, None]), max_size=2)
    | st.fixed_dictionaries({"id": st.sampled_from(["x", "y", 1])})
    | st.text(max_size=3)
)
NAMES = st.sampled_from(["level", "n", "ok", "ratio", "tags", "dc", "who", "who.id", "unknown"])
OBJECTS = st.builds(
    lambda fields, time: json.dumps({**fields, "ts": time}),
    st.dictionaries(NAMES, VALUES, max_size=5),
    TIMES,
)
LINES = st.lists(
    OBJECTS | st.sampled_from(["", " ", "{", "[]", "null", "7", "{}", "drop", '{"n": NaN}']),
    max_size=8,
)


def made(make: Make, lines: list[bytes]) -> tuple[Any, ...]:
    positions = [0]
    for line in lines:
        positions.append(positions[-1] + len(line) + 1)
    result = Made(Messages(lines, positions), NOW, (0, 2 * NOW), lines.__getitem__)
    make(lines, result)
    columns = (result.times, result.positions, result.bodies, result.keys)
    dead = [(each.position, each.raw, each.time) for each in result.dead]
    dropped = result.dropped.counts
    return (*columns, dead, dropped, result.tally.excepted(), result.lines, result.clamped)


@given(lines=LINES)
@settings(max_examples=150)
def test_the_same_events_and_the_same_dead_letters(lines: list[str]) -> None:
    bodies = [line.encode() for line in lines]
    assert made(COLUMNS, bodies) == made(LINE_BY_LINE, bodies)

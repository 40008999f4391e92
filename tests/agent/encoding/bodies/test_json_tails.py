"""JSON lines as fields of events: whatever stands in them, the general encoder's verdict holds."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.encoding.bodies.json_tails import BLOCK, JsonTails
from agent.encoding.bodies.tail_encoder import TailEncoder
from schemas.parsing import parse
from tests.agent.encoding.batches.event_tails import event_schema, event_texts, of

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
VIEW = event_schema(
    {"name": "url", "type": "string"},
    {"name": "user", "type": ["null", "long"], "default": None},
    {"name": "status", "type": "int"},
    {"name": "seconds", "type": "double"},
    {"name": "share", "type": "float", "default": 0.5},
    {"name": "secure", "type": "boolean", "default": False},
    {"name": "agent", "type": ["string", "null"], "default": "-"},
    {"name": "kind", "type": ["null", ENUM]},
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
)
LINE = {"url": "/é", "status": 200, "seconds": 0.25}


def line(**changed: Any) -> bytes:
    return json.dumps(LINE | changed, ensure_ascii=False).encode()


def expected(encoder: TailEncoder, text: bytes) -> bytes | str:
    """What the general encoder says."""
    try:
        value = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return "not JSON"
    try:
        return encoder.encode(value)
    except ValueError as error:
        return str(error)


def check(encoder: TailEncoder, lines: list[bytes], **options: Any) -> None:
    tails = JsonTails(encoder, **options).encode(lines)
    assert len(tails.bodies) == len(lines)
    for at, text in enumerate(lines):
        wanted = expected(encoder, text)
        if isinstance(wanted, bytes):
            assert tails.bodies[at] == wanted, text
            assert at not in tails.refused
        else:
            assert tails.bodies[at] is None
            assert wanted == "not JSON" or tails.refused[at] == wanted


ODD = [
    line(status="404"),
    line(status=200.0),
    line(status=True),
    line(status=2**31),
    line(status=None),
    line(status="x"),
    line(url=7),
    line(url=["a"]),
    line(url=None),
    line(seconds="1e3"),
    line(seconds=3),
    line(seconds=2**64),
    line(seconds=True),
    line(seconds=2**53 + 1),
    line(share=1e39),
    line(share=None),
    line(secure="true"),
    line(secure=1),
    line(secure=None),
    line(user="-"),
    line(user=""),
    line(user=7.0),
    line(user=True),
    line(user=None),
    line(user=10**30),
    line(agent=None),
    line(agent=False),
    line(kind="B"),
    line(kind="C"),
    line(kind=""),
    line(at="2026-11-20T12:00:00Z"),
    line(at=7),
    line(at="now"),
    line(tags=["a", 1]),
    line(tags=None),
    line(tags="a"),
    line(more={"deep": [1, 2]}),
    b'{"url": "a", "url": "b", "status": 1, "seconds": -0}',
    b'{"url": "\\u00e9\\ud83d\\ude00", "status": 1, "seconds": -0.0}',
    b'{"url": "a", "status": 1, "seconds": 100000000000000000000000000000000000000001}',
    b'{"url": "a", "status": 1e2, "seconds": 1e400}',
    b"{}",
]
BROKEN = [b"", b"[]", b"7", b"null", b"{", b'{"url": "a"}}', b'{"url": NaN}', b"\xff", b" {} {}"]


@pytest.mark.parametrize("odd", ODD)
def test_a_line_among_others(odd: bytes) -> None:
    encoder = TailEncoder(VIEW)
    check(encoder, [line(), odd, line(user=5, agent="x"), odd])
    check(encoder, [odd])
    check(encoder, [odd, *BROKEN, line()])


def test_every_line_has_its_verdict_in_blocks_too() -> None:
    lines = [*ODD, *BROKEN, *[line(status=n) for n in range(3 * BLOCK)]]
    check(TailEncoder(VIEW), lines[::-1] + lines)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[]", "JSON, but not an object"),
        (b'"x"', "JSON, but not an object"),
        (b"{'a': 1}", "not JSON: object keys must be strings (byte 1)"),
        (b"", "not JSON: Input data was truncated"),
        (b'{"status": "\xff"}', "not JSON: invalid UTF-8 at byte 0 of a string"),
        (b"[" * 100_000, "not JSON: "),
        (b'{"tags": ' + b"[" * 100_000, "nested too deeply"),
        (b"{}", "url: it is missing"),
    ],
)
def test_why_a_line_is_refused(text: bytes, why: str) -> None:
    tails = JsonTails(TailEncoder(VIEW)).encode([text])
    assert tails.bodies == [None]
    assert tails.refused[0].startswith(why) or why == "not JSON: "


def test_fields_are_taken_as_they_stand() -> None:
    tails = JsonTails(TailEncoder(VIEW), take=["ts", "status", "agent"])
    lines = [line(ts="now", status="5"), line(ts=7), b"broken", line(agent=None), line(status="x")]
    got = tails.encode(lines)
    assert got.taken == (["now", 7, None, None, None], ["5", 200, None, 200, "x"], [None] * 5)
    assert sorted(got.refused) == [2, 4]
    check(TailEncoder(VIEW), lines, take=["ts", "status", "agent"])


def test_constants_stand_in_every_event() -> None:
    schema = of(a="int", b="string", c="long")
    encoder = TailEncoder(schema)
    tails = JsonTails(encoder, constants={"b": "x", "other": 1})
    got = tails.encode([b'{"a": 1, "c": 2}', b'{"a": "1", "b": 7, "c": 2}', b'{"a": 1}'])
    wanted = encoder.encode({"a": 1, "b": "x", "c": 2})
    assert got.bodies == [wanted, wanted, None]
    with pytest.raises(ValueError, match=r"^c: 'x' is not a long$"):
        JsonTails(encoder, constants={"c": "x"})


def test_constants_stand_in_events_that_are_done_one_by_one_too() -> None:
    schema = of(a={"type": "array", "items": "int"}, b="string")
    encoder = TailEncoder(schema)
    lines = [b'{"a": ["x"], "b": 1}', b'{"a": ["1"], "b": 1}', b'{"a": [1]}']
    got = JsonTails(encoder, constants={"b": "x"}).encode(lines)
    wanted = encoder.encode({"a": [1], "b": "x"})
    assert got.bodies == [None, wanted, wanted]


def test_unknown_fields_are_refused_if_that_is_wanted() -> None:
    tails = JsonTails(TailEncoder(of(a="int")), take=["ts"], constants={"k": 1}, only_known=True)
    got = tails.encode([b'{"a": 1, "ts": 1, "k": 2}', b'{"a": 1, "z": 1}', b'{"a": "1"}'])
    assert got.bodies == [b"\2", None, b"\2"]
    assert got.refused == {1: "the schema has no field 'z'"}


def test_an_event_of_a_header_alone_has_no_tail() -> None:
    assert JsonTails(TailEncoder(event_schema())).encode([b"{}", b'{"a": 1}']).bodies == [b"", b""]


def test_names_are_never_source_text() -> None:
    strange = {"f0": "int", "__import__": "string", "class": "long"}
    encoder = TailEncoder(of(**strange))
    check(encoder, [b'{"f0": 1, "__import__": "x", "class": 2}'], take=["'); import os; ('"])


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8)
    | st.integers(-(2**65), 2**65).map(str)
    | st.sampled_from(["", "-", "true", "A", "1.0", "2026-11-20"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=settings().max_examples // 2)  # schemas take long to make up
@given(st.data())
def test_the_general_encoder_is_the_judge(data: st.DataObject) -> None:
    text = data.draw(event_texts())
    encoder = TailEncoder(parse(json.dumps(text)))
    plausible = st.fixed_dictionaries({}, optional=dict.fromkeys(encoder.names, json_values))
    objects = data.draw(st.lists(plausible | json_values, max_size=6))
    lines = [json.dumps(each, ensure_ascii=False).encode() for each in objects]
    check(encoder, lines)


@given(
    st.lists(
        st.fixed_dictionaries(
            {}, optional=dict.fromkeys([*LINE, "user", "agent", "kind"], json_values)
        ),
        max_size=6,
    )
)
def test_the_general_encoder_is_the_judge_of_simple_fields(objects: list[Any]) -> None:
    check(TailEncoder(VIEW), [json.dumps(LINE | each).encode() for each in objects])


# Fields that were renamed by alias, and lines of applications that have not heard of it

INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "id", "type": "long", "aliases": ["number"]}],
}
RENAMED = event_schema(
    {"name": "user", "type": "string", "aliases": ["login", "name"]},
    {"name": "plan", "type": ["null", "string"], "default": None, "aliases": ["tier"]},
    {"name": "count", "type": "int", "default": 7, "aliases": ["n"]},
    {"name": "tier2", "type": ["null", "long"], "default": None, "aliases": ["user"]},
    {"name": "inner", "type": ["null", INNER], "default": None, "aliases": ["outer"]},
    name="shop.Renamed",
)
TODAY = {"user": "ada", "plan": "free", "count": 3}
FORMER = {"login": "ada", "tier": "free", "n": 3}


def text(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("line", "today"),
    [
        (FORMER, TODAY),
        # Today's name counts, then the first of the former ones.
        ({"name": "old", "login": "newer", "user": "newest"}, {"user": "newest"}),
        ({"name": "old", "login": "newer"}, {"user": "newer"}),
        # A name that another field has now is that one's.
        ({"user": "1"}, {"user": "1", "tier2": None}),
        # Inner records have former names too.
        ({"user": "a", "outer": {"number": 5}}, {"user": "a", "inner": {"id": 5}}),
    ],
)
def test_lines_with_former_names_are_the_events_that_lines_with_todays_are(
    line: dict[str, Any], today: dict[str, Any]
) -> None:
    encoder = TailEncoder(RENAMED)
    assert "tier2" not in encoder.aliases
    assert encoder.encode(line) == (wanted := encoder.encode(today))
    assert JsonTails(encoder).encode([text(today), text(line)]).bodies == [wanted, wanted]


class ColumnByColumn(JsonTails):
    """Never one by one, as what needs a conversion is."""

    def _one(self, line: bytes, *_: object) -> Any:
        raise AssertionError(line)


def test_lines_of_both_kinds_are_done_at_once() -> None:
    tails = ColumnByColumn(TailEncoder(RENAMED)).encode([text(TODAY), text(FORMER)] * BLOCK)
    assert len(set(tails.bodies)) == 1
    assert tails.refused == {}


def test_what_is_under_no_name_is_missing_or_unknown() -> None:
    tails = JsonTails(TailEncoder(RENAMED)).encode([text(FORMER), b"{}", text(TODAY)])
    assert tails.refused == {1: "user: it is missing"}
    assert tails.bodies[0] == tails.bodies[2] is not None
    strict = JsonTails(TailEncoder(RENAMED), only_known=True)
    lines = [text(FORMER), text(FORMER | {"tier2": 1, "no": 1})]
    assert strict.encode(lines).refused == {1: "the schema has no field 'no'"}


def test_what_is_asked_for_is_found_under_former_names() -> None:
    tails = JsonTails(TailEncoder(RENAMED), take=["user", "login"])
    found = tails.encode([text(TODAY), text(FORMER), b"{}"]).taken
    assert found == (["ada", "ada", None], [None, "ada", None])


NAMES = ["user", "login", "name", "plan", "tier", "count", "n", "tier2", "inner", "outer", "x"]
VALUES = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, -1, 2**31, 1.5, 7.0, "7", "", "-", "a", [], {"id": 1}, {"number": 2}])
)


@given(
    st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6), max_size=9),
    st.sampled_from([[], ["user"], ["login"], ["n", "count"], ["outer"]]),
)
def test_column_by_column_is_one_by_one(lines: list[dict[str, Any]], take: list[str]) -> None:
    check(TailEncoder(RENAMED), list(map(text, lines)), take=take)

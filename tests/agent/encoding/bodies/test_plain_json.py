"""JSON in C: a line has the body that it has without it, or is left to what stands behind it."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.encoding.bodies import plain_json
from agent.encoding.bodies.json_tails import JsonTails, Tails
from agent.encoding.bodies.plain_json import PlainJson
from agent.encoding.bodies.tail_encoder import TailEncoder
from schemas.parsing import parse
from tests.agent.encoding.batches.event_tails import event_schema, event_texts

if plain_json.NATIVE:
    from agent.encoding.bodies._json_bodies import encode
else:
    pytest.skip(
        "agent/encoding/bodies/_json_bodies.c is not compiled: `python hatch_build.py`, with a C "
        "compiler and Python's headers",
        allow_module_level=True,
    )

SYMBOLS = ["A", "B", "long_one"]
ENUM = {"type": "enum", "name": "E", "symbols": SYMBOLS}
EVENT = TailEncoder(
    event_schema(
        {"name": "s", "type": "string"},
        {"name": "i", "type": "int", "default": 7},
        {"name": "l", "type": ["null", "long"], "default": None},
        {"name": "f", "type": ["float", "null"], "default": 0.5},
        {"name": "d", "type": "double", "default": 0.25},
        {"name": "b", "type": ["null", "boolean"]},
        {"name": "e", "type": ["null", ENUM]},
        {"name": "n", "type": ["null", "string"]},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "list", "type": {"type": "array", "items": "string"}, "default": []},
    )
)
NAMES = (*EVENT.names, "more", "", "é", "S", "listing")

integers = st.integers(-5, 5) | st.sampled_from(
    [sign * (1 << bits) + more for sign in (1, -1) for bits in (31, 53, 63) for more in (-1, 0, 1)]
)
numbers = st.sampled_from(
    (
        *("0", "-0", "00", "01", "-01", "0.0", "-0.0", "0.", ".5", "1.", "-", "+1", "1.5.5", "0x1"),
        *("1e5", "1E-5", "1e400", "-1.25", "0.1", "0.30000000000000004", "123456789012345"),
        *("1234567890123456", "999999999999999999", "9999999999999999999", "1234567.8901234567"),
        *("9007199254740993.0", "3.4028235e38", "340282350000000000000000000000000000000.0"),
        *("0.000000000000001", "0.0000000000000000000000000000001", "179769313486231570.5"),
        *("-0.00000000000000000", "0.000000000000000", "5" * 62, "5" * 63, "5" * 64, "5" * 70),
        *("0." + "3" * 60, "0." + "3" * 61, "0." + "3" * 62, "0." + "3" * 70),
    )
) | st.floats(allow_nan=False, allow_infinity=False).map(repr)
texts = st.text(max_size=20) | st.sampled_from(
    (
        "",
        "-",
        "A",
        "B",
        "long_one",
        "é" * 40,
        '\n\t"\\/\b\f\r',
        "12",
        "true",
        "x" * 200,
        "\0",
        "\x7f",
    )
)
strings = st.builds(json.dumps, texts, ensure_ascii=st.booleans()) | st.sampled_from(
    ('"\\/"', '"\\u0041"', '"\\ud800"', '"\\x"', '"\\', '"', '"\t"', '"\x7f"', '"1234567\\"', "'a'")
)
others = st.sampled_from(
    ("null", "true", "false", "tru", "nullx", "True", "NaN", "[]", '["a"]', "{}", '{"a": [1]}', "")
)
values = strings | numbers | integers.map(str) | others
white = st.sampled_from(("", "", " ", "\t ", "\r\n"))
FITTING = {
    "s": strings,
    "i": st.integers(-(2**31), 2**31 - 1).map(str) | integers.map(str),
    "l": integers.map(str),
    "f": st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    "d": numbers,
    "b": st.sampled_from(("true", "false", "null")),
    "e": st.sampled_from(('"A"', '"B"', '"long_one"', "null")),
    "n": strings,
}


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """What fits, with up to one value that may not, or is of any name; or cut, or damaged."""
    fitting = draw(st.lists(st.sampled_from([*FITTING]), max_size=6, unique=True))
    inside = [(f'"{name}"', draw(FITTING[name])) for name in fitting]
    if "s" not in fitting and draw(st.integers(0, 5)):
        inside.append(('"s"', '"GET /"'))
    if draw(st.booleans()):
        name = draw(st.sampled_from(NAMES).map(json.dumps) | strings)
        inside.insert(draw(st.integers(0, len(inside))), (name, draw(values)))
    gap = draw(white)
    members = (gap.join(("", name, ":", value, "")) for name, value in inside)
    text = gap + "{" + ",".join(members) + gap + "}" + gap
    line = text.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 5)) == 0:
        at = draw(st.integers(0, len(line) - 1))
        return line[:at] + draw(st.binary(max_size=2)) + line[at + draw(st.integers(0, 2)) :]
    return line


def said(tails: Tails) -> tuple[Any, ...]:
    """With the classes of what was taken: 1, 1.0 and True are equal."""
    return tails.bodies, repr(tails.taken), tails.refused


def check(several: Sequence[bytes], encoder: TailEncoder = EVENT, **options: Any) -> None:
    quickly = JsonTails(encoder, **options).encode(list(several))
    slowly = JsonTails(encoder, native=False, **options).encode(list(several))
    assert said(quickly) == said(slowly)


@given(st.lists(lines(), min_size=1, max_size=10))
@example([b'{"s":"a","s":"b"}', b'{"s":"a"}', b'{"s":"\xff"}', b'{"s":"a","more":"\xff"}'])
@example([b'{"s":"a","d":%s}' % each for each in (b"1.5.5", b"00.5", b"-", b"1.", b"-0.0")])
@example([b'{"s":"a","d":%s}' % each for each in (b"9007199254740993.0", b"0.00000000012345678")])
@example([b'{"s":"a","i":%d}' % each for each in (2**31 - 1, 2**31, -(2**31), -(2**31) - 1)])
@example([b'{"s":"a","l":%d}' % each for each in (10**18 - 1, 2**63 - 1, 2**63, -(2**63) - 1)])
@example([b'{"s":"a","f":%s}' % each for each in (b"3.4028236e38", b"4" + b"0" * 38 + b".5")])
@example([b'{"s":"a","\xa1f":1}', b'{"s":"a","\xed\xa0\x80":1}', b"{}"])
@example([b'{"s":"a"}\0', b'{"s":"a"', b'{"s":"a",}', b"{,}", b"{}", b"", b"{", b'{"', b'{"s"'])
def test_lines_come_to_the_same(several: list[bytes]) -> None:
    check(several)
    check(several, take=["s", "d", "l", "more", "b"])
    check(several, constants={"s": "always", "i": 5, "none": 1}, take=["s"], only_known=True)


@settings(max_examples=settings().max_examples // 2)  # schemas take long to make up
@given(event_texts(), st.data())
def test_whatever_the_schema_is(text: dict[str, Any], data: st.DataObject) -> None:
    encoder = TailEncoder(parse(json.dumps(text)))
    pair = st.tuples(st.sampled_from([*encoder.names, "more"]), values)
    inside = data.draw(st.lists(st.lists(pair, max_size=6), min_size=1, max_size=4))
    several = [
        "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in each) + "}"
        for each in inside
    ]
    check([each.encode("utf-8", "surrogatepass") for each in several], encoder)


PLAIN = (
    b'{"s":"GET /","i":200,"l":123456789012345678,"f":0.5,"d":12.25,"b":true,"e":"B","n":"x"}',
    b' { "n" : null , "b" : false , "d" : 12 , "s" : "a \\"b\\" \\\\ \\n" } ',
    b'{"s":"","more":"what nobody asked for","f":null,"e":null,"at":null}',
    '{"s":"\u00e9\u4e2d\U0001f600","d":0.30000000000000004}'.encode(),
    b'{"s":"' + b"x" * 70_000 + b'"}',
)
LEFT = (
    b'{"s":"\\u0041"}',
    b'{"s":7}',
    b'{"s":"a","i":7.0}',
    b'{"s":"a","at":7}',
    b'{"s":"a","more":{}}',
    b'{"i":1}',
)


def test_what_is_plain_is_taken_and_nothing_else() -> None:
    plain = PlainJson(EVENT, take=["more"], constants={}, only_known=False)
    bodies, (more,), _ = plain.encode([*PLAIN, *LEFT])
    assert [body is None for body in bodies] == [False] * len(PLAIN) + [True] * len(LEFT)
    assert more == [None, None, "what nobody asked for", *[None] * (len(PLAIN) + len(LEFT) - 3)]
    assert bodies[: len(PLAIN)] == JsonTails(EVENT, native=False).encode(PLAIN).bodies
    check([*LEFT, *PLAIN, *LEFT, *PLAIN], take=["more"])


def test_a_schema_may_have_more_fields_than_are_looked_at() -> None:
    fields = [{"name": f"f{at}", "type": "int", "default": at} for at in range(200)]
    many, fewer = TailEncoder(event_schema(*fields)), TailEncoder(event_schema(*fields[:128]))
    for encoder in (many, fewer):
        check([b"{}", b'{"f1":5,"f127":6,"f199":7}'], encoder)


GOOD: tuple[Any, ...] = (b"", False, (b"a",), ((0, 0, b"", None, b"", ()),), (0,))
FIELD: tuple[Any, ...] = GOOD[3][0]


def test_values_of_unknown_fields_are_counted_by_name() -> None:
    lines = [b'{"a":"x","b":1,"c":null}', b'{"b":true,"a":"y"}', b'{"b":1,"a":7}']
    assert encode(GOOD, lines)[2] == {"b": 2, "c": 1}, "the last line has no body"
    many = b",".join(b'"f%d":%d' % (at, at) for at in range(40))
    counted = encode(GOOD, [b'{"a":"x",%s}' % many, b'{"a":"x","f7":0,"f39":0}'])[2]
    assert counted == {**{f"f{at}": 1 for at in range(16)}, "f7": 2, "": 25}

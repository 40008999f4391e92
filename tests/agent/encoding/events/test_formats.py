"""What each format makes of a line."""

import json
from typing import Any

import pytest

from agent.accounting.runs import Fate
from agent.configuration.inputs import Format
from agent.configuration.lines import Filter, Multiline, Time
from agent.encoding.events.fields import (
    by_named_groups,
    fields_of_json,
    fields_of_logfmt,
    fields_of_syslog,
)
from agent.encoding.lines.faults import LineFault
from agent.encoding.lines.patterns import MOST_CHARACTERS
from tests.agent.encoding.events.reading import NOW, Outcome, read, reader_of, schema_of


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ('{"a": 1, "b": {"c": [1.5, null, true]}}', {"a": 1, "b": {"c": [1.5, None, True]}}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('{"a": 18446744073709551616}', {"a": 2**64}),
        ('{"a": -9223372036854775809}', {"a": -(2**63) - 1}),
        ('{"a": 1e5}', {"a": 100000.0}),
        ('{"é": "\\u20ac\\ud83d\\ude00"}', {"é": "€😀"}),
        (" {} ", {}),
    ],
)
def test_json(line: str, fields: dict[str, Any]) -> None:
    assert fields_of_json(line.encode()) == fields


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("foo", "not JSON: "),
        ('{"a": 1', "not JSON: "),
        ('{"a": 1} {"b": 2}', "not JSON: trailing characters"),
        ('{"a": NaN}', "not JSON: "),
        ('{"a": Infinity}', "not JSON: "),
        ('{"a": 1e400}', "not JSON: Number out of range"),
        ('{"a": "\\ud800"}', "not JSON: "),
        ("[1]", "JSON, but not an object: an array"),
        ("12", "JSON, but not an object: 12"),
        ("1", "JSON, but not an object: 1"),
        ("0.0", "JSON, but not an object: 0.0"),
        ("false", "JSON, but not an object: false"),
        ("null", "JSON, but not an object: null"),
        ("true", "JSON, but not an object: true"),
        ('"' + "x" * 1000 + '"', "JSON, but not an object: 'xxx"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON: "),
    ],
)
def test_what_is_no_json(line: str, reason: str) -> None:
    assert reason in fault_of(fields_of_json, line)


def fault_of(find: Any, line: str) -> str:
    with pytest.raises(LineFault) as caught:
        find(line.encode())
    assert caught.value.kind == "format"
    assert len(caught.value.reason) <= 300
    return caught.value.reason


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("a=1 b=two", {"a": "1", "b": "two"}),
        ('msg="two words" at=x', {"msg": "two words", "at": "x"}),
        (r'msg="say \"hi\"\n\u20ac" x=', {"msg": 'say "hi"\n€', "x": ""}),
        (r'path="C:\dir" a="\\"', {"path": "C:dir", "a": "\\"}),
        ("debug a=1", {"debug": "true", "a": "1"}),
        ("a=1 a=2", {"a": "2"}),
        ("url=http://x/?q=1&r=2", {"url": "http://x/?q=1&r=2"}),
        ("  a=1\t b=2  ", {"a": "1", "b": "2"}),
        ('a="1\n2"', {"a": "1\n2"}),
    ],
)
def test_logfmt(line: str, fields: dict[str, str]) -> None:
    assert fields_of_logfmt(line.encode()) == fields


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Exception in thread main", "no key=value"),
        ('a=1 b="open', "at character 4: 'b=\"open'"),
        ("=x", "not logfmt at character 0"),
        ('a="x"y', "not logfmt at character 0"),
        ('a=1 "', "not logfmt at character 4"),
    ],
)
def test_what_is_no_logfmt(line: str, reason: str) -> None:
    assert reason in fault_of(fields_of_logfmt, line)


def test_named_groups() -> None:
    find = by_named_groups(r"(?P<level>\w+): (?P<n>\d+)?(?P<rest>.*)")
    assert find("[x] info: é".encode()) == {"level": "info", "rest": "é"}
    assert "no match" in fault_of(find, "nothing here")
    assert "too long for" in fault_of(find, "x" * (MOST_CHARACTERS + 1))


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (
            '<165>1 2026-11-20T14:37:00.123Z h app 87 ID47 [ex@3 k="v\\"\\]" l=""][b] hi there',
            {
                "priority": 165,
                "facility": "local4",
                "severity": "notice",
                "time": "2026-11-20T14:37:00.123Z",
                "host": "h",
                "app": "app",
                "pid": "87",
                "msgid": "ID47",
                "message": "hi there",
                "structured_data": {"ex@3": {"k": 'v"]', "l": ""}, "b": {}},
            },
        ),
        (
            "<0>1 - - - - - -",
            {"priority": 0, "facility": "kern", "severity": "emerg", "message": ""},
        ),
        (
            "<34>Nov  2 14:37:00 host su[8710]: it failed: twice",
            {
                "priority": 34,
                "facility": "auth",
                "severity": "crit",
                "time": "Nov  2 14:37:00",
                "host": "host",
                "app": "su",
                "pid": "8710",
                "message": "it failed: twice",
            },
        ),
        (
            "2026-11-20T14:37:00.123456+01:00 host kernel: [ 1.2] up",
            {
                "time": "2026-11-20T14:37:00.123456+01:00",
                "host": "host",
                "app": "kernel",
                "message": "[ 1.2] up",
            },
        ),
        (
            "Nov 20 14:37:00 host last message repeated 3 times",
            {"time": "Nov 20 14:37:00", "host": "host", "message": "last message repeated 3 times"},
        ),
        (
            "Nov 20 14:37:00 host postfix/smtpd[12]: x\n y",
            {
                "time": "Nov 20 14:37:00",
                "host": "host",
                "app": "postfix/smtpd",
                "pid": "12",
                "message": "x\n y",
            },
        ),
    ],
)
def test_syslog(line: str, fields: dict[str, Any]) -> None:
    assert fields_of_syslog(line.encode()) == fields


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("hello world", "must begin with a time"),
        ("<192>Nov 20 14:37:00 host x: y", "invalid priority 192"),
        ('<1>1 - - - - - [a b="open', "invalid structured data at character 15"),
    ],
)
def test_what_is_no_syslog(line: str, reason: str) -> None:
    assert reason in fault_of(fields_of_syslog, line)


def test_syslog_times_are_those_of_the_events() -> None:
    data = (
        b"Nov 20 14:00:00 h a: old\n<1>1 2026-11-20T14:00:01Z h a - - - new\n"
        b"<1>1 - h a - - - none\n"
    )
    outcome = read(reader_of(format=Format.SYSLOG), data)
    assert outcome.bodies == [b"old", b"new", b"none"]
    assert outcome.times == [NOW - 1_800_000, NOW - 1_799_000, NOW]
    zone = Time(field="time", zone="Europe/Zurich")
    outcome = read(reader_of(format=Format.SYSLOG, time=zone), data)
    assert outcome.times == [NOW - 1_800_000 - 3_600_000, NOW - 1_799_000]
    assert [dead.reason for dead in outcome.dead] == ["no field time with the time"]


def cri(stream: str, tag: str, text: str, second: int = 0) -> bytes:
    return f"2026-11-20T14:00:{second:02}.123456789Z {stream} {tag} {text}\n".encode()


def docker(text: str, stream: str = "stdout", **more: Any) -> bytes:
    line = {"log": text, "stream": stream, "time": "2026-11-20T14:00:00.123456789Z", **more}
    return json.dumps(line).encode() + b"\n"


def test_cri() -> None:
    data = cri("stdout", "F", "one", 1) + cri("stderr", "F", "") + cri("stdout", "F:x", "a  b ")
    outcome = read(reader_of(format=Format.CRI), data)
    assert outcome.bodies == [b"one", b"", b"a  b "]
    assert outcome.times == [NOW - 1_800_000 + 1_123, *[NOW - 1_800_000 + 123] * 2]


def test_pieces_are_joined_stream_by_stream() -> None:
    lines = [
        cri("stdout", "P", "a"),
        cri("stderr", "P", "x"),
        cri("stdout", "P", "b"),
        cri("stdout", "F", "c"),
        b"nonsense\n",
        cri("stderr", "F", "y"),
        cri("stdout", "F", "end"),
        cri("stdout", "P", "half"),
    ]
    data = b"".join(lines)
    reader = reader_of(format=Format.CRI, last_line_timeout=4.0)
    cut = reader.cut(data, 0, now_millis=NOW, final=False)
    assert cut.consumed == len(data) - len(lines[-1])
    assert cut.wait == 4.0
    outcome = read(reader, data)
    assert outcome.bodies == [b"abc", b"xy", b"end", b"half"]
    assert [event[0] for event in outcome.events][:2] == [0, len(lines[0])]
    assert outcome.lines == 7
    (dead,) = outcome.dead
    assert (dead.raw, dead.size) == (b"nonsense", 9)


def test_a_message_in_pieces_is_no_longer_than_a_line_may_be() -> None:
    data = b"".join(cri("stdout", "P", "x" * 50) for _ in range(10))
    outcome = read(reader_of(format=Format.CRI, max_line_bytes=300), data)
    assert outcome.bodies == [b"x" * 150] * 3 + [b"x" * 50]


def test_pieces_that_are_together_as_long_as_a_line_may_be() -> None:
    pieces = cri("stdout", "P", "ab") + cri("stdout", "P", "cd")
    for most, bodies in ((len(pieces) - 1, [b"abcd"]), (len(pieces) - 2, [b"ab", b"cd"])):
        assert read(reader_of(format=Format.CRI, max_line_bytes=most), pieces).bodies == bodies


def test_a_file_that_ends_without_a_line_break_right_at_the_bound() -> None:
    pieces = cri("stdout", "P", "ab") + cri("stdout", "P", "cd")[:-1]
    for most, bodies in ((len(pieces), [b"abcd"]), (len(pieces) - 1, [b"ab", b"cd"])):
        reader = reader_of(format=Format.CRI, max_line_bytes=most)
        cut = reader.cut(pieces, 0, now_millis=NOW, final=True)
        assert cut.events is not None
        assert cut.events.bodies == bodies


def test_an_event_is_over_before_a_line_that_is_too_long() -> None:
    first = cri("stdout", "F", "1")
    multiline = Multiline(indentation=True)
    reader = reader_of(format=Format.CRI, max_line_bytes=60, multiline=multiline)
    cut = reader.cut(first + cri("stdout", "F", " 2" * 50)[:-1], 0, now_millis=NOW, final=False)
    assert (cut.consumed, cut.wait) == (len(first), 0.0)


def test_docker() -> None:
    data = docker("one\n") + docker("tw") + docker("o\r\n") + docker("err\n", "stderr")
    strange = b'{"log": "no time\\n"}\n{"log": 1}\n{"x"\n'
    outcome = read(reader_of(format=Format.DOCKER), data + strange)
    assert outcome.bodies == [b"one", b"two", b"err", b"no time"]
    assert outcome.times[-2:] == [NOW - 1_800_000 + 123, NOW]
    assert [dead.raw for dead in outcome.dead] == [b'{"log": 1}', b'{"x"']
    assert "Expected `str`, got `int`" in outcome.dead[0].reason


def test_lines_in_containers_that_are_one_event() -> None:
    data = b"".join(
        [
            cri("stdout", "F", "1 Error"),
            cri("stdout", "P", "  at "),
            cri("stdout", "F", "a"),
            cri("stderr", "F", "  other stream"),
            cri("stdout", "F", "  at b"),
            cri("stdout", "F", "2"),
        ]
    )
    reader = reader_of(format=Format.CRI, multiline=Multiline(indentation=True, timeout=1.5))
    outcome = read(reader, data)
    assert outcome.bodies == [b"1 Error\n  at a", b"  other stream\n"[:-1], b"  at b", b"2"]
    assert outcome.lines == 6
    cut = reader.cut(data, 0, now_millis=NOW, final=False)
    assert (cut.lines, cut.wait) == (5, 1.5)


def test_fields_of_containers_for_a_schema_of_its_own() -> None:
    schema = schema_of(message="string", stream="string", attrs={"type": "map", "values": "string"})
    reader = reader_of(
        schema,
        format=Format.DOCKER,
        partition_by="field:stream",
        filters=(Filter(name="quiet", drop="^stderr$", field="stream"),),
    )
    data = docker("a\n", attrs={"k": "v"}) + docker("b\n", "stderr") + docker("c\n")
    outcome = read(reader, data)
    assert outcome.bodies == [b"\x02a\x0cstdout\x02\x02k\x02v\x00"]
    assert outcome.events[0][3] == b"stdout"
    assert outcome.excepted == {(Fate.FILTERED, "quiet"): 1, (Fate.DEAD_LETTERED, "schema"): 1}
    assert "attrs" in outcome.dead[0].reason


@pytest.mark.parametrize(
    "given",
    [
        {"format": Format.JSON},
        {"format": Format.LOGFMT},
        {"format": Format.REGEX, "pattern": "(?P<message>x)?"},
    ],
)
def test_empty_lines_are_no_dead_letters(given: dict[str, Any]) -> None:
    outcome: Outcome = read(reader_of(schema_of(message=("string", "")), **given), b"\n  \n\r\n")
    assert outcome.dead == []
    if given["format"] is not Format.REGEX:
        assert outcome.excepted == {(Fate.FILTERED, "empty line"): 3}
    assert read(reader_of(), b"\n\n").bodies == [b"", b""], "in plain text they are events"

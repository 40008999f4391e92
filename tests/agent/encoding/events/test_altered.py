"""What of the text of events is not what the file has: counted by kind, whatever pieces come."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.accounting.alterations import MOST_FIELDS, Alteration
from agent.accounting.cuts import Cut
from agent.configuration.inputs import Format, UnknownFields
from agent.configuration.lines import Filter, Multiline
from agent.encoding.events.reader import EventReader
from agent.reading.intake import one_after_the_other
from schemas.envelope import Decoder
from schemas.event_schemas import SYSLOG_LINE, built_in
from tests.agent.encoding.events.reading import NOW, reader_of, schema_of

HEADER = b"\2" + b"\2h" + b"\2a" + b"\2s" + b"\2" + b"\2"
REPLACED, CUT, DROPPED = Alteration.REPLACED, Alteration.CUT, Alteration.DROPPED


def cuts(reader: EventReader, data: bytes, size: int = 0) -> list[Cut]:
    """In chunks of so many bytes, which grow where nothing comes of them."""
    found: list[Cut] = []
    position, held = 0, None
    step = size or len(data)
    while position < len(data):
        chunk = data[position : position + step]
        final = position + step >= len(data)
        cut = reader.cut(chunk, position, now_millis=NOW, final=final, skipping=held is not None)
        step = (size or len(data)) if cut.consumed else 2 * step
        position += cut.consumed
        cut = cut if held is None else one_after_the_other(held, cut)
        held = cut if cut.skipping and cut.consumed else None
        if held is None and cut.consumed:
            found.append(cut)
    return found + ([held] if held else [])


def altered(reader: EventReader, data: bytes, size: int = 0) -> dict[Any, tuple[int, int]]:
    lines: Counter[Any] = Counter()
    counts: Counter[Any] = Counter()
    for cut in cuts(reader, data, size):
        for each in cut.altered:
            key = (each.kind, each.name) if each.name else each.kind
            lines[key] += each.lines
            counts[key] += each.count
    return {key: (lines[key], counts[key]) for key in lines}


def test_lines_with_bytes_that_are_no_text_are_counted() -> None:
    data = b"good\nb\xe4d\n\xff\xfe\xfd\nU+FFFD itself: \xef\xbf\xbd\n\xef\xbf\xbd\xe4\n"
    assert altered(reader_of(), data) == {REPLACED: (3, 5)}
    assert altered(reader_of(), "all is well ✓ \ufffd\n".encode()) == {}


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "shift_jis", "utf-16", "utf-32-be"])
@given(data=st.data())
def test_it_does_not_matter_in_which_pieces_a_file_is_read(
    encoding: str, data: st.DataObject
) -> None:
    text = [*data.draw(st.lists(st.binary(max_size=12), max_size=8)), b"end"]
    newline = "\n".encode(encoding if encoding != "utf-16" else "utf-16-le")
    whole = newline.join(text) + newline
    size = data.draw(st.integers(1, 40))
    once = altered(reader_of(encoding=encoding), whole)
    assert altered(reader_of(encoding=encoding), whole, size) == once


def test_what_is_filtered_or_dead_is_not_altered() -> None:
    drop = (Filter(drop="debug"),)
    assert altered(reader_of(filters=drop), b"debug \xff\nshipped \xff\xff\n") == {REPLACED: (1, 2)}
    reader = reader_of(schema_of(a="string"), format=Format.JSON)
    assert altered(reader, b'no JSON \xff\n{"a":"\xff"}\n{"b":"\xff"}\n') == {REPLACED: (1, 1)}


def test_lines_of_one_event_are_counted_one_by_one() -> None:
    reader = reader_of(multiline=Multiline(indentation=True))
    assert altered(reader, b"\xff\n  \xff\n  good\nnext\n") == {REPLACED: (2, 2)}
    container = reader_of(format=Format.CRI)
    line = b"2026-11-20T14:37:00.1Z std%s %s %s\n"
    data = b"".join(
        line % part
        for part in ((b"out", b"P", b"\xff"), (b"err", b"F", b"\xfe"), (b"out", b"F", b"\xff\xff"))
    )
    assert altered(container, data) == {REPLACED: (3, 4)}, "and every container has streams"


@pytest.mark.parametrize("size", [0, 50])
def test_the_end_of_a_long_line_that_is_cut_off_is_counted(size: int) -> None:
    reader = reader_of(max_line_bytes=100)
    data = b"short\n" + b"\xff" + b"x" * 299 + b"\n" + b"y" * 100 + b"\n"
    assert altered(reader, data, size) == {CUT: (1, 201), REPLACED: (1, 1)}
    assert altered(reader_of(max_line_bytes=100, long_lines="dead"), data, size) == {}


def test_fields_that_the_schema_does_not_have_are_counted_by_name() -> None:
    schema = schema_of(a="string", n=["null", "long"])
    lines = b'{"a":"x","b":1}\n{"a":"x"}\n{"a":"x","b":{"deep":[1]},"n":"7","c":null}\n{"b":1}\n'
    expected = {(DROPPED, "b"): (2, 2), (DROPPED, "c"): (1, 1)}
    assert altered(reader_of(schema, format=Format.JSON), lines) == expected
    filters = (Filter(keep="deep"),)
    kept = altered(reader_of(schema, format=Format.JSON, filters=filters), lines)
    assert kept == {(DROPPED, "b"): (1, 1), (DROPPED, "c"): (1, 1)}
    logfmt = altered(reader_of(schema, format=Format.LOGFMT), b"a=x b=1\na=x\nb=1\n")
    assert logfmt == {(DROPPED, "b"): (1, 1)}
    keep = schema_of(a="string", extra={"type": "map", "values": "string"})
    for how in (UnknownFields.KEEP, UnknownFields.DEAD):
        for format_ in (Format.JSON, Format.LOGFMT):
            assert altered(reader_of(keep, format=format_, unknown_fields=how), lines) == {}


def test_fields_that_an_input_goes_by_are_not_missed() -> None:
    line = b"2026-11-20T14:37:00Z host app[7]: message\n"
    plain = altered(reader_of(format=Format.SYSLOG), line)
    assert plain == {(DROPPED, name): (1, 1) for name in ("host", "app", "pid")}
    filters = (Filter(keep="a", field="app"),)
    assert (DROPPED, "app") not in altered(reader_of(format=Format.SYSLOG, filters=filters), line)


def test_nothing_of_syslog_is_dropped_where_it_has_its_own_schema() -> None:
    schema = built_in(SYSLOG_LINE)
    lines = (
        b'<165>1 2026-11-20T14:37:00.123Z web-1 shop 8710 ID47 [a@1 k="v"][b@1] started\n'
        b"<34>Nov 20 14:37:00 web-1 su[8]: failed\n"
        b"Nov 20 14:37:00 web-1 message\n"
    )
    (cut,) = cuts(reader_of(schema, format=Format.SYSLOG), lines)
    assert cut.altered == ()
    assert cut.events is not None
    read = Decoder(lambda _: schema).decode
    path = b"\x04/a"
    events = [read(b"\0\0\0\0\1" + HEADER + path + body) for body in cut.events.bodies]
    nothing = dict.fromkeys(("app", "pid", "facility", "severity", "msgid"))
    expected: list[dict[str, Any]] = [
        {
            "message": "started",
            "app": "shop",
            "pid": "8710",
            "msgid": "ID47",
            "facility": "local4",
            "severity": "notice",
            "structured_data": {"a@1": {"k": "v"}, "b@1": {}},
        },
        {"message": "failed", "app": "su", "pid": "8", "facility": "auth", "severity": "crit"},
        {"message": "message"},
    ]
    whole: dict[str, Any] = {"path": "/a", "host": "web-1", "structured_data": {}, **nothing}
    for event, fields in zip(events, expected, strict=True):
        assert {**event, "header": 0} == {"header": 0, **whole, **fields}


def test_plain_lines_fit_where_syslog_is() -> None:
    (cut,) = cuts(reader_of(built_in(SYSLOG_LINE)), b"one\ntwo\n")
    assert cut.events is not None
    assert [len(body) for body in cut.events.bodies] == [4 + 6 + 1] * 2
    assert cut.altered == ()


def test_of_any_number_of_fields_few_are_named() -> None:
    schema = schema_of(a="string")
    lines = b"".join(b'{"a":"x","f%d":1,"g":{}}\n' % at for at in range(50))
    found = altered(reader_of(schema, format=Format.JSON), lines)
    assert len(found) <= MOST_FIELDS + 1
    assert sum(count for _, count in found.values()) == 100


@pytest.mark.parametrize(
    ("written", "read_as", "looks"),
    [
        ("utf-16", "utf-8", "utf-16"),
        ("utf-16-le", "utf-8", "utf-16"),
        ("utf-16-be", "latin-1", "utf-16"),
        ("utf-32", "utf-8", "utf-32"),
        ("cp1252", "utf-8", "cp1252"),
        ("utf-8-sig", "cp1252", "utf-8"),
        ("utf-8", "utf-8", ""),
        ("utf-8-sig", "utf-8", ""),
        ("utf-16", "utf-16", ""),
        ("utf-16-be", "utf-16", ""),
        ("shift_jis", "shift_jis", ""),
    ],
)
def test_what_another_encoding_looks_like(written: str, read_as: str, looks: str) -> None:
    data = ("Grüße aus Zürich, für 7 €\nund noch eine Zeile\n" * 20).encode(written, "ignore")
    found = cuts(reader_of(encoding=read_as), data)
    assert found[0].looks == looks
    hints = {each.hint for cut in found for each in cut.altered if each.kind is REPLACED}
    assert hints <= {looks}


def test_a_broken_byte_now_and_then_is_no_encoding() -> None:
    data = b"all is well\n" * 100 + b"b\xffd\n"
    assert [cut.looks for cut in cuts(reader_of(), data)] == [""]
    torn = "Grüße aus Zürich\n".encode() * 20 + b"Gr\xc3\n" * 5
    assert [cut.looks for cut in cuts(reader_of(), torn)] == [""]

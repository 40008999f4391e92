"""Whatever bytes there are, and however they are cut: the same events, exact sums, no exception."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.configuration.inputs import Format, LongLines, UnknownFields
from agent.configuration.lines import Filter, Multiline, Redaction, Time
from tests.agent.encoding.events.reading import read, reader_of, schema_of

SCHEMA = schema_of(
    level="string",
    n=["null", "long"],
    msg=("string", ""),
    extra=({"type": "map", "values": "string"}, {}),
)
EXAMPLES = 30

T = "2026-11-20T14:00:00Z"
ANY = [
    *(
        b"\n",
        b"\r\n",
        b"\r",
        b"\n\n",
        b" ",
        b"\t",
        b"1",
        b"x",
        b"abc",
        b"\\",
        b"\x00",
        b"\xef\xbb\xbf",
    ),
    *(b"\xc3\xbc", b"\xc3", b"\xff", b"\x85", b"+AGE", b"x" * 11, b"y" * 30),
]
WIDE = [
    *(b"\n\x00", b"\x00\n", b"a\x00", b"\x00a", b"\x00\x00", b"\n", b"\xff\xfe", b"b\x00" * 9),
    *(b"\x00", b"\n\x00\x00\x00", b"\x00\x00\x00\n", b"c\x00\x00\x00" * 3),
]
SHORT = [b"\n", b"a", b" ", b" b\n", b"1", b"c\\\n", b"1\n", b" \n", b"\r\n"]
CRI = [
    f"{T} std{stream} {text}\n".encode()
    for stream in ("out", "err")
    for text in ("F a", "F  b", "F 1c", "P d", "P ", "F")
]
DOCKER = [
    b'{"log":"%s","stream":"%s","time":"%s"}\n' % (log, stream, T.encode())
    for stream in (b"stdout", b"stderr")
    for log in (b"a", b" b\\n", b"c\\n", b"1d\\r\\n")
]
JSON = [
    *(b'{"level":"i"', b',"n":1', b',"n":"x"', b',"u":[1]', f',"ts":"{T}"'.encode(), b"}\n", b"\n"),
    *(b'{"level":"a"}\n', f'{{"level":"b","ts":"{T}"}}\n'.encode(), b'{"n":7}\n'),
]
LOGFMT = [b"level=i", b' msg="a b"', b" n=3\n", b" n=x\n", b"level=a\n", b"\n", b'"']
SYSLOG = [
    b"<34>Nov 20 14:37:00 host app[8710]: message\n",
    b'<165>1 2026-11-20T14:37:00Z host app - - [a b="c"] message\n',
    b"<165>1 - host app - - - message\n",
]


POSTGRESQL = [
    f"2026-11-20 14:00:00.000 UTC [1] {text}\n".encode()
    for text in ("a@b ERROR:  x", "a@b DETAIL:  y", "LOG:  z", "[", "HINT:  ")
]


@dataclass(frozen=True)
class Case:
    """An input, the kind of bytes that matter to it, and how long its lines may be."""

    pieces: Sequence[bytes]
    most_bytes: int
    given: dict[str, Any] = field(default_factory=dict)


def typed(pieces: Sequence[bytes], format_: Format, **given: Any) -> Case:
    return Case(pieces, 60, {"format": format_, **given})


CASES = {
    "plain": Case(ANY, 10),
    "long lines dead": Case(ANY, 10, {"long_lines": LongLines.DEAD}),
    "latin-1": Case(ANY, 10, {"encoding": "latin-1"}),
    "shift_jis": Case(ANY, 10, {"encoding": "shift_jis"}),
    "utf-7": Case(ANY, 10, {"encoding": "utf-7"}),
    "utf-16": Case(WIDE, 6, {"encoding": "utf-16"}),
    "utf-16-be": Case(WIDE, 6, {"encoding": "utf-16-be"}),
    "utf-32": Case(WIDE, 8, {"encoding": "utf-32"}),
    "start": Case(SHORT, 7, {"multiline": Multiline(start=r"^\d", max_lines=4)}),
    "continuation": Case(SHORT, 7, {"multiline": Multiline(continuation=r"\\$|^ ")}),
    "indentation": Case(SHORT, 9, {"multiline": Multiline(indentation=True, max_lines=3)}),
    "indentation in utf-16": Case(
        [piece.decode().encode("utf-16-le") for piece in SHORT],
        14,
        {"encoding": "utf-16-le", "multiline": Multiline(indentation=True)},
    ),
    "filtered and redacted": Case(
        ANY,
        10,
        {
            "filters": (Filter(drop="x"), Filter(sample=2)),
            "redact": (Redaction(pattern="[a-c]+", replacement="*"),),
        },
    ),
    "json": typed(JSON, Format.JSON, time=Time(field="ts"), partition_by="field:level"),
    "json dead": typed(JSON, Format.JSON, unknown_fields=UnknownFields.DEAD),
    "json keep": typed(JSON, Format.JSON, unknown_fields=UnknownFields.KEEP),
    "json together": typed(JSON, Format.JSON, multiline=Multiline(start="^{")),
    "logfmt": typed(LOGFMT, Format.LOGFMT),
    "regex": typed(LOGFMT, Format.REGEX, pattern=r"(?P<level>\w+)=(?P<n>\d+)?"),
    "syslog": Case(SYSLOG, 60, {"format": Format.SYSLOG}),
    "postgresql": Case([*POSTGRESQL, b"\ta\n", b"\n"], 130, {"format": Format.POSTGRESQL}),
    "cri": Case(CRI, 70, {"format": Format.CRI}),
    "cri together": Case(
        CRI, 105, {"format": Format.CRI, "multiline": Multiline(indentation=True, max_lines=3)}
    ),
    "docker": Case(DOCKER, 150, {"format": Format.DOCKER}),
    "docker together": Case(
        DOCKER, 180, {"format": Format.DOCKER, "multiline": Multiline(start=r"^\d")}
    ),
}
READERS = {
    name: reader_of(
        SCHEMA if case.given.get("format") in {Format.JSON, Format.LOGFMT, Format.REGEX} else None,
        max_line_bytes=case.most_bytes,
        **case.given,
    )
    for name, case in CASES.items()
}


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_however_a_file_is_cut_the_same_events_come_of_it(name: str, data: st.DataObject) -> None:
    usual = st.lists(st.sampled_from(CASES[name].pieces), max_size=16)
    strange = st.lists(st.sampled_from(CASES[name].pieces) | st.binary(max_size=6), max_size=12)
    content = b"".join(data.draw(usual | strange))
    sizes = data.draw(st.lists(st.integers(1, CASES[name].most_bytes + 4), max_size=50))
    most = data.draw(st.integers(1, 5))
    whole = read(READERS[name], content)
    assert whole.consumed == len(content)
    assert read(READERS[name], content, sizes) == whole
    assert read(READERS[name], content, [], most_lines=most) == whole
    assert read(READERS[name], content, sizes, most_lines=most) == whole


@pytest.mark.parametrize("name", ["plain", "start", "json", "logfmt", "cri together", "syslog"])
@given(pieces=st.lists(st.sampled_from([*ANY, *JSON, *LOGFMT, *CRI, *SYSLOG]), max_size=16))
@settings(max_examples=EXAMPLES // 2)
def test_lines_of_a_file_are_counted_exactly(name: str, pieces: list[bytes]) -> None:
    """Every line break ends one, and so does the end of the file."""
    data = b"".join(pieces)
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    outcome = read(READERS[name], data)
    assert outcome.lines + sum(outcome.excepted.values()) == lines

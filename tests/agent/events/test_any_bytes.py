"""Whatever bytes there are, and however they are cut: the same events, exact sums, no exception."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.config import (
    Filter,
    Format,
    LongLines,
    Multiline,
    Redaction,
    Time,
    UnknownFields,
)
from agent.events.reader import Reader
from tests.agent.events.reading import read, reader_of, schema_of

SCHEMA = schema_of(
    level="string",
    n=["null", "long"],
    msg=("string", ""),
    extra=({"type": "map", "values": "string"}, {}),
)
TIME = Time(field="ts")
EXAMPLES = 60

READERS: dict[str, Reader] = {
    name: reader_of(SCHEMA if with_schema else None, max_line_bytes=40, **given)
    for name, with_schema, given in (
        ("plain", False, {}),
        ("plain with long lines dead", False, {"long_lines": LongLines.DEAD}),
        ("plain latin-1", False, {"encoding": "latin-1"}),
        ("plain utf-16", False, {"encoding": "utf-16"}),
        ("plain utf-16-be", False, {"encoding": "utf-16-be"}),
        ("plain utf-32", False, {"encoding": "utf-32"}),
        ("plain shift_jis", False, {"encoding": "shift_jis"}),
        ("plain utf-7", False, {"encoding": "utf-7"}),
        ("plain start", False, {"multiline": Multiline(start=r"^\d", max_lines=4)}),
        ("plain continuation", False, {"multiline": Multiline(continuation=r"\\$|^ ")}),
        ("plain indentation", False, {"multiline": Multiline(indentation=True)}),
        (
            "plain filtered",
            False,
            {
                "filters": (Filter(drop="x"), Filter(sample=2)),
                "redact": (Redaction(pattern="[a-c]+", replacement="*"),),
            },
        ),
        (
            "utf-16 indentation",
            False,
            {"encoding": "utf-16-le", "multiline": Multiline(indentation=True)},
        ),
        ("json", True, {"format": Format.JSON, "time": TIME, "partition_by": "field:level"}),
        ("json dead", True, {"format": Format.JSON, "unknown_fields": UnknownFields.DEAD}),
        ("json keep", True, {"format": Format.JSON, "unknown_fields": UnknownFields.KEEP}),
        ("json together", True, {"format": Format.JSON, "multiline": Multiline(start="^{")}),
        ("logfmt", True, {"format": Format.LOGFMT}),
        ("regex", True, {"format": Format.REGEX, "pattern": r"(?P<level>\w+) (?P<n>\d+)?"}),
        ("cri", False, {"format": Format.CRI}),
        ("cri together", False, {"format": Format.CRI, "multiline": Multiline(start=r"^\d")}),
        ("docker", False, {"format": Format.DOCKER}),
        (
            "docker together",
            False,
            {"format": Format.DOCKER, "multiline": Multiline(indentation=True)},
        ),
        ("syslog", False, {"format": Format.SYSLOG}),
    )
}

T = "2026-11-20T14:00:00Z"
PIECES = st.sampled_from(
    [
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
        *(
            b"\n\x00",
            b"\x00\n",
            b"a\x00",
            b"\x00a",
            b"\xc3\xbc",
            b"\xc3",
            b"\xff",
            b"\x85",
            b"+AGE",
        ),
        *(b'{"level":"i"', b',"n":1', b',"n":"x"', b',"u":[1]', f',"ts":"{T}"'.encode(), b"}\n"),
        *(b"level=i", b' msg="a b"', b" n=3\n", b"info 12\n", b"x" * 45, b"y" * 90),
        *(b"%s stdout F %s\n" % (T.encode(), each) for each in (b"a", b" b", b"1c")),
        *(b"%s std%s P a\n" % (T.encode(), each) for each in (b"out", b"err")),
        b'{"log":"a","stream":"stdout","time":"2026-11-20T14:00:00Z"}\n',
        b'{"log":" b\\n","stream":"stdout","time":"2026-11-20T14:00:00Z"}\n',
        b'{"log":"c\\n","stream":"stderr","time":"2026-11-20T14:00:00Z"}\n',
        b"<34>Nov 20 14:37:00 host app[8710]: message\n",
        b'<165>1 2026-11-20T14:37:00Z host app - - [a b="c"] message\n',
    ]
)
DATA = st.lists(PIECES | st.binary(max_size=6), max_size=30).map(b"".join)


@pytest.mark.parametrize("name", READERS)
@given(data=DATA, sizes=st.lists(st.integers(1, 40), max_size=60), most=st.integers(1, 5))
@settings(max_examples=EXAMPLES)
@example(data=b"", sizes=[], most=1)
def test_however_a_file_is_cut_the_same_events_come_of_it(
    name: str, data: bytes, sizes: list[int], most: int
) -> None:
    whole = read(READERS[name], data)
    assert whole.consumed == len(data)
    assert read(READERS[name], data, sizes) == whole
    assert read(READERS[name], data, [], most_lines=most) == whole
    assert read(READERS[name], data, sizes, most_lines=most) == whole


@given(data=DATA)
@settings(max_examples=EXAMPLES)
def test_lines_of_a_file_are_counted_exactly(data: bytes) -> None:
    """Every line break ends one, and so does the end of the file."""
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    for name in ("plain", "plain start", "json", "logfmt", "cri together", "syslog"):
        outcome = read(READERS[name], data)
        assert outcome.lines + sum(outcome.excepted.values()) == lines, name

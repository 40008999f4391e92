"""Lines that somebody has made up to keep an agent busy: long ones take time by their length alone.

The operator's own patterns are another matter: they are only kept from all of a long line.
"""

import time
from typing import Any

import pytest

from agent.configuration.inputs import Format
from agent.configuration.lines import Language, Multiline, Redaction, Time
from agent.encoding.events.fields import fields_of_logfmt
from agent.encoding.events.redaction import WINDOW
from agent.encoding.lines.faults import LineFault
from tests.agent.encoding.events.reading import read, reader_of, schema_of

LONG = 64 * 1024
MEGABYTE = 1024 * 1024
SCHEMA = schema_of(message=("string", ""), a=("string", ""))
STARTS = {
    Format.JSON: b"",
    Format.LOGFMT: b"a=1 ",
    Format.CRI: b"2026-11-20T14:00:00Z stdout F ",
    Format.DOCKER: b"",
    Format.SYSLOG: b"<1>1 - - - - - ",
    Format.NGINX: b'::1 - - [20/Nov/2026:14:00:00 +0000] "GET ',
    Format.HAPROXY: b"1:1 [20/Nov/2026:14:00:00.000] a b/c 0/0/0/0/0 200 0 - - ---- 1/1/0/0/0 0/0 ",
    Format.POSTGRESQL: b"2026-11-20 14:00:00.000 UTC [1] a@",
}
REPEATED = [b"a", b" ", b'"', b'\\"', b"=", b'a="', b'a="b" ', b"[a ", b'[a b="c"]', b' b="c"']
REPEATED += [
    b"a.",
    b"A.a",
    b"a(",
    b"@a",
    b":1:in `'",
    b"[",
    b'{"a":',
    b"9",
    b"\\u00e9",
    b"\x00",
    b"\xff",
    b"a\t",
    b"a]",
    "ü".encode(),
]


@pytest.mark.not_quick("measures time")
@pytest.mark.parametrize("of", [*STARTS, *Language])
def test_formats_take_time_by_length_alone(of: Format | Language) -> None:
    if isinstance(of, Format):
        reader = reader_of(SCHEMA, format=of, max_line_bytes=2 * LONG)
    else:
        reader = reader_of(multiline=Multiline(language=of), max_line_bytes=2 * LONG)
    start = STARTS[of] if isinstance(of, Format) else b"a."
    for before in (start, start + b'"', start + b'[a b="'):
        for repeated in REPEATED:
            line = (before + repeated * LONG)[:LONG] + b"\n"
            began = time.thread_time()
            outcome = read(reader, line)
            assert time.thread_time() - began < 1, (before, repeated)
            assert len(outcome.events) + len(outcome.dead) + outcome.excepted.total() >= 1


@pytest.mark.not_quick("matches and redacts megabytes")
@pytest.mark.parametrize(
    "given",
    [
        {"multiline": Multiline(start=r"\w+@x")},
        {"format": Format.REGEX, "pattern": r"(?P<a>\w+)@x"},
    ],
)
def test_a_pattern_is_not_given_a_megabyte(given: dict[str, Any]) -> None:
    """These would take hours: each place is tried, and from each as far as the line goes."""
    reader = reader_of(SCHEMA if "format" in given else None, **given)
    began = time.thread_time()
    read(reader, b"a" * (MEGABYTE - 1) + b"\n")
    assert time.thread_time() - began < 30


@pytest.mark.not_quick("matches and redacts megabytes")
def test_redaction_goes_over_a_megabyte_in_windows() -> None:
    redact = (Redaction(pattern=r"\w+@x", replacement="*"),)
    size = 4 * WINDOW
    began = time.thread_time()
    outcome = read(reader_of(redact=redact), b"a" * size + b"@x\n")
    assert time.thread_time() - began < 30
    assert outcome.bodies[0].endswith(b"a*"), "the end of it, that is as far as half a window"


def test_times_are_short() -> None:
    schema = schema_of(a=("string", ""))
    for format_ in ("iso8601", "epoch", "rfc3164", "%Y-%m-%d"):
        reader = reader_of(schema, format=Format.JSON, time=Time(field="t", format=format_))
        for text in ("1", "2026-11-20T14:00:00.000", " ", "Nov 20 14:00:00."):
            line = b'{"t": "' + text.encode() + b"0" * MEGABYTE + b'"}\n'
            began = time.thread_time()
            assert read(reader, line).events == []
            assert time.thread_time() - began < 2


@pytest.mark.parametrize("blank", [b" ", b"\t", b"\x0b", b" \t"])
def test_a_megabyte_of_blanks_is_no_logfmt(blank: bytes) -> None:
    """In time that grows with its length, not with the square of it."""
    with pytest.raises(LineFault):
        fields_of_logfmt(blank * 500_000)

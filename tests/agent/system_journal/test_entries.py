"""From journalctl's output to events: parsed, selected, numbered, written as lines, and read."""

import random
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.configuration.inputs import Format, Input
from agent.configuration.lines import Multiline, Redaction
from agent.configuration.system_journal import SystemJournal
from agent.encoding.bodies.tail_encoder import TailEncoder
from agent.encoding.lines.journal_lines import cursor_of
from agent.encoding.topic_schemas.values import Purpose, wanted_for
from agent.system_journal.export_format import Entry, ExportParser
from agent.system_journal.numbering import Gap, Numbering
from agent.system_journal.selection import Selection
from tests.agent.encoding.events.reading import read, reader_of, schema_of

MICROS = 1_795_184_000_000_000
MOST = 1_000


def exported(number: int = 1, *, id_: str = "ab", seqnum: bool = False, **fields: Any) -> bytes:
    """An entry as journalctl writes it: what is not printable in the binary form."""
    parts = [b"__CURSOR=s=%b;i=%x;b=0;m=1;t=2;x=3\n" % (id_.encode(), number)]
    parts.append(b"__REALTIME_TIMESTAMP=%d\n" % MICROS)
    if seqnum:
        parts.append(b"__SEQNUM=%d\n__SEQNUM_ID=%b\n" % (number, id_.encode()))
    for name, value in fields.items():
        data = value if isinstance(value, bytes) else str(value).encode()
        if data.isascii() and data.decode().isprintable():
            parts.append(b"%b=%b\n" % (name.encode(), data))
        else:
            parts.append(b"%b\n%b%b\n" % (name.encode(), len(data).to_bytes(8, "little"), data))
    return b"".join(parts) + b"\n"


def parsed(data: bytes, pieces: int = 1, wanted: frozenset[bytes] | None = None) -> list[Entry]:
    parser = ExportParser(wanted or Selection(SystemJournal(), MOST).wanted, MOST)
    size = max(1, len(data) // pieces)
    cuts = range(0, len(data), size)
    return [entry for start in cuts for entry in parser.feed(data[start : start + size])]


def entry(number: int = 1, **given: Any) -> Entry:
    return parsed(exported(number, **given))[0]


@given(
    messages=st.lists(st.binary(max_size=40) | st.text("a=\n\0é-", max_size=20), max_size=5),
    pieces=st.integers(1, 500),
)
def test_entries_are_parsed_in_any_pieces(messages: list[bytes | str], pieces: int) -> None:
    cut_short = exported(9, MESSAGE="no empty line follows, since it cannot be read")[:-1]
    data = b"".join(
        cut_short + exported(MESSAGE=message, PRIORITY="3", OTHER=b"\n\n") for message in messages
    )
    entries = parsed(b"-- No entries --\n" + data, pieces)
    found = [each.fields for each in entries]
    assert all(each.number == 1 for each in entries)
    expected = [each if isinstance(each, bytes) else each.encode() for each in messages]
    assert [fields[b"MESSAGE"] for fields in found] == expected
    assert all(fields[b"PRIORITY"] == b"3" and b"OTHER" not in fields for fields in found)


@pytest.mark.parametrize("binary", [False, True])
def test_a_value_of_any_length_takes_little_memory(binary: bool) -> None:
    value = b"x" * 5_000 + (b"\0" if binary else b"")
    first, second = parsed(exported(MESSAGE=value) + exported(2, MESSAGE="next"), 100)
    assert (first.fields[b"MESSAGE"], first.cut) == (value[:MOST], frozenset({b"MESSAGE"}))
    assert (second.fields[b"MESSAGE"], second.cut) == (b"next", frozenset())


@given(st.binary(max_size=200))
def test_garbage_raises_nothing(data: bytes) -> None:
    assert not parsed(data, random.Random(len(data)).randrange(1, 20))


UNIT_NAME = "nginx.service"
UNIT = {"_SYSTEMD_UNIT": UNIT_NAME}


@pytest.mark.parametrize(
    ("journal", "fields", "is_selected"),
    [
        ({}, {}, True),
        ({"units": ("nginx",)}, UNIT, True),
        ({"units": ("nginx.service",)}, UNIT, True),
        ({"units": ("ng*",)}, UNIT, True),
        ({"units": ("nginx.socket",)}, UNIT, False),
        ({"units": ("nginx",)}, {"_SYSTEMD_UNIT": "xnginx.service"}, False),
        ({"units": ("nginx",)}, {"UNIT": "nginx.service", "_PID": "1"}, True),
        ({"units": ("nginx",)}, {"UNIT": "nginx.service", "_PID": "12"}, False),
        ({"units": ("nginx",)}, {"OBJECT_SYSTEMD_UNIT": "nginx.service", "_UID": "0"}, True),
        ({"units": ("nginx",)}, {"OBJECT_SYSTEMD_UNIT": "nginx.service", "_UID": "9"}, False),
        ({"identifiers": ("sshd", "sudo")}, {"SYSLOG_IDENTIFIER": "sudo"}, True),
        ({"identifiers": ("sshd",)}, {}, False),
        ({"priorities": ("err", "emerg")}, {"PRIORITY": "3"}, True),
        ({"priorities": ("err", "emerg")}, {"PRIORITY": "4"}, False),
        ({"units": ("nginx",), "priorities": ("err",)}, {**UNIT, "PRIORITY": "6"}, False),
    ],
)
def test_selection(journal: dict[str, Any], fields: dict[str, Any], is_selected: bool) -> None:
    selection = Selection(SystemJournal(**journal), MOST)
    assert selection.has(entry(MESSAGE="x", **fields)) is is_selected


def at(number: int, id_: str = "ab", *, is_exact: bool = True) -> Entry:
    return entry(number, id_=id_, seqnum=is_exact)


@pytest.mark.parametrize(
    ("last", "next_", "gap"),
    [
        ({}, at(7), None),
        ({"ab": 6}, at(7), None),
        ({"ab": 6}, at(10), Gap(7, 9, is_exact=True)),
        ({"ab": 6}, at(1, "cd"), Gap(0, 0, is_exact=True)),
        ({"": 6}, at(7, "cd", is_exact=False), None),  # the files of a host count together
        ({"": 6}, at(9, "cd", is_exact=False), Gap(7, 8, is_exact=False)),
        ({"": 6}, at(3, "cd", is_exact=False), None),  # journald was started again
    ],
)
def test_missing_numbers(last: dict[str, int], next_: Entry, gap: Gap | None) -> None:
    numbering = Numbering(last)
    assert numbering.gap_before(next_) == gap
    numbering.take(next_)
    assert numbering.gap_before(next_) is None


def line(journal: SystemJournal | None = None, /, **fields: Any) -> bytes:
    made = Selection(journal or SystemJournal(), MOST).line(entry(**fields))
    assert cursor_of(made) == b"s=ab;i=1;b=0;m=1;t=2;x=3"
    return made


FIELDS = SystemJournal(fields={"unit": "_SYSTEMD_UNIT", "pid": "_PID"})


SCHEMA = schema_of(message="string", unit=("string", ""), pid=("long", 0))


@pytest.mark.parametrize(
    ("given", "fields", "event"),
    [
        ({}, {"MESSAGE": 'two\nlines\\"\x01é'}, ('two\nlines\\"\x01é', "", 0)),
        ({}, {"MESSAGE": b"\xff"}, ("\ufffd", "", 0)),
        ({}, {}, ("", "", 0)),
        ({"journal": FIELDS}, {"MESSAGE": "m", **UNIT, "_PID": "12"}, ("m", UNIT_NAME, 12)),
        (
            {"journal": FIELDS, "format": Format.JSON},
            {"MESSAGE": '{"message": "inner", "unit": "a lie"}', **UNIT},
            ("inner", UNIT_NAME, 0),
        ),
        (
            {"journal": FIELDS, "redact": (Redaction(pattern="s[a-z]+e", replacement="[x]"),)},
            {"MESSAGE": "a service", **UNIT},
            ("a [x]", "nginx.[x]", 0),
        ),
    ],
)
def test_an_entry_becomes_an_event(
    given: dict[str, Any], fields: dict[str, Any], event: tuple[str, str, int]
) -> None:
    journal = given.get("journal", SystemJournal())
    reader = reader_of(SCHEMA, **{"paths": (), "journal": journal, **given})
    outcome = read(reader, line(journal, **fields))
    assert outcome.times == [MICROS // 1000]
    message, unit, pid = event
    expected = TailEncoder(SCHEMA).encode({"message": message, "unit": unit, "pid": pid})
    assert outcome.bodies == [expected]


def test_lines_of_one_stream_are_one_event() -> None:
    messages = [("Error", "1"), ("  at a", "1"), ("  at b", "2")]
    data = b"".join(line(MESSAGE=message, _PID=pid) for message, pid in messages)
    given = {"paths": (), "journal": SystemJournal(), "multiline": Multiline(indentation=True)}
    assert read(reader_of(**given), data).bodies == [b"Error\n  at a", b"  at b"]


def test_a_message_that_is_too_long_is_a_dead_letter() -> None:
    outcome = read(reader_of(paths=(), journal=SystemJournal()), line(MESSAGE="x" * 5_000))
    (dead,) = outcome.dead
    assert "longer than max_line_bytes" in dead.reason
    assert b"xxx" in dead.raw


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "`paths`, with at least one file or pattern, or `journal` is required"),
        ({"journal": {}, "paths": ["/x"]}, "`paths` is for files"),
        ({"journal": {}, "encoding": "latin-1"}, "`encoding` is for files"),
        ({"journal": {}, "format": "docker"}, "is for files of containers"),
        ({"journal": {"namespace": "--x"}}, "not the name of a journal namespace"),
        ({"journal": {"namespace": "x", "directory": "/x"}}, "not both"),
        ({"journal": {"directory": "x"}}, "x is not absolute"),
        ({"journal": {"priorities": ["error"]}}, "Invalid enum value 'error'"),
        ({"journal": {"fields": {"a b": "_PID"}}}, "cannot be the name of a schema's field"),
        ({"journal": {"fields": {"pid": "pid"}}}, "is not a journal field"),
        ({"journal": {"units": [""]}}, "must not contain empty names"),
    ],
)
def test_what_a_journal_input_may_not_have(given: dict[str, Any], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=re.escape(said)):
        msgspec.convert({"topic": "logs", **given}, Input)


@pytest.mark.parametrize(
    ("given", "purpose"),
    [
        ({}, Purpose.EITHER),
        ({"schema": "/x.avsc"}, Purpose.FIELDS),
        ({"format": Format.JSON}, Purpose.FIELDS),
        ({"format": Format.NGINX}, Purpose.ACCESS),
    ],
)
def test_the_schema_of_a_journal(given: dict[str, Any], purpose: Purpose) -> None:
    assert wanted_for(Input(topic="logs", journal=SystemJournal(), **given)).purpose is purpose

"""Where lines end, what they say in any encoding, and what becomes of long ones."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.accounting.cuts import MOST_RAW
from agent.accounting.runs import Excepted, Fate
from agent.configuration.inputs import LongLines
from agent.configuration.lines import Multiline, Redaction
from agent.encoding.lines import splitting
from agent.encoding.lines.encodings import line_encoding
from agent.encoding.lines.splitting import ALL, lines_of
from agent.errors import InputError
from tests.agent.compiled import needs
from tests.agent.encoding.events.reading import NOW, read, reader_of


def test_lines_and_where_they_start() -> None:
    cut = reader_of().cut(b"one\ntwo\r\n\nhalf", 100, now_millis=NOW, final=False)
    assert cut.events is not None
    assert cut.events.bodies == [b"one", b"two", b""]
    assert cut.events.positions == [100, 104, 109]
    assert cut.events.times == NOW
    assert (cut.consumed, cut.lines, cut.excepted, cut.dead) == (10, 3, (), [])


def test_half_a_line_waits_and_is_taken_in_the_end() -> None:
    reader = reader_of(last_line_timeout=7.0)
    cut = reader.cut(b"half", 0, now_millis=NOW, final=False)
    assert (cut.consumed, cut.events, cut.wait) == (0, None, 7.0)
    cut = reader.cut(b"half", 0, now_millis=NOW, final=True)
    assert cut.events is not None
    assert (cut.consumed, cut.events.bodies, cut.wait) == (4, [b"half"], 0.0)
    assert reader.cut(b"", 4, now_millis=NOW, final=True).consumed == 0


def test_no_more_lines_are_taken_than_are_allowed() -> None:
    data = b"1\n2\n3\nhalf"
    cut = reader_of().cut(data, 0, now_millis=NOW, final=True, most_lines=2)
    assert (cut.lines, cut.consumed, cut.wait) == (2, 4, 0.0)
    cut = reader_of().cut(data[4:], 4, now_millis=NOW, final=True, most_lines=2)
    assert cut.events is not None
    assert cut.events.bodies == [b"3", b"half"]


TEXT = "one\nZürich 5€\r\n\nlast ü"


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        ("utf-8", "utf-8"),
        ("utf-8", "utf-8-sig"),
        ("utf8", "utf-8"),
        ("utf-16", "utf-16-le"),
        ("utf-16", "utf-16-be"),
        ("utf-16", "utf-16"),
        ("utf-16-be", "utf-16-be"),
        ("utf-32", "utf-32-le"),
        ("utf-32", "utf-32-be"),
        ("cp1252", "cp1252"),
        ("iso8859-15", "iso8859-15"),
        ("gb18030", "gb18030"),
        ("utf-7", "utf-7"),
        ("cp1140", "cp1140"),  # EBCDIC: its line feed is another byte
    ],
)
def test_encodings(encoding: str, written: str) -> None:
    data = TEXT.encode(written)
    outcome = read(reader_of(encoding=encoding), data)
    assert b"\n".join(outcome.bodies).decode() == TEXT.replace("\r", "")
    assert outcome.events[0][0] == 0


def test_what_is_not_valid_is_replaced_and_nothing_beside_it() -> None:
    outcome = read(reader_of(), "ü\n".encode() + b"a\xffb\n" + "ü\n".encode())
    assert [body.decode() for body in outcome.bodies] == ["ü", "a\ufffdb", "ü"]
    outcome = read(reader_of(encoding="shift_jis"), b"a\x81\nb\n")
    assert outcome.bodies[1] == b"b", "half a character has swallowed a line feed"


def test_chinese_without_a_latin_letter_is_read_in_the_right_order() -> None:
    data = "漢字\n漢字\n".encode("utf-16-be")
    assert read(reader_of(encoding="utf-16"), data).bodies == ["漢字".encode()] * 2


def test_a_line_feed_is_not_seen_across_two_characters() -> None:
    data = "\u1200\u0a34\n".encode("utf-16-be")  # bytes 12 00 0a 34
    assert read(reader_of(encoding="utf-16-be"), data).bodies == ["\u1200\u0a34".encode()]


@pytest.mark.parametrize("encoding", ["rot13", "idna", "punycode", "unicode_escape", "undefined"])
def test_encodings_that_no_log_is_in(encoding: str) -> None:
    with pytest.raises(InputError, match=f"logs: `encoding: {encoding}`"):
        reader_of(encoding=encoding)


def test_a_long_line_is_cut_and_its_rest_is_accounted_for() -> None:
    reader = reader_of(max_line_bytes=5)
    cut = reader.cut(b"12345678\nnext\n", 0, now_millis=NOW, final=False)
    assert cut.events is not None
    assert cut.events.bodies == [b"12345"]
    assert cut.consumed == 9
    assert cut.lines == 1
    assert cut.excepted == (Excepted(Fate.FILTERED, 0, 4, "line cut at 5 bytes"),)
    assert not cut.skipping


def test_a_line_is_known_to_be_long_as_soon_as_it_is() -> None:
    reader = reader_of(max_line_bytes=5)
    assert reader.cut(b"12345", 0, now_millis=NOW, final=False).consumed == 0
    cut = reader.cut(b"123456", 0, now_millis=NOW, final=False)
    assert (cut.consumed, cut.lines, cut.skipping) == (6, 1, True)


def test_half_a_character_at_the_end_of_a_file_that_grows_later() -> None:
    reader = reader_of(encoding="utf-16-le")
    data = "a\nbc\nd\n".encode("utf-16-le")
    cut = reader.cut(data[:7], 0, now_millis=NOW, final=True)
    assert cut.events is not None
    assert cut.events.bodies == [b"a", "b\ufffd".encode()]
    cut = reader.cut(data[7:], 7, now_millis=NOW, final=False)
    assert cut.events is not None
    assert cut.events.bodies == [b"", b"d"]


def test_a_line_of_just_the_size_is_whole() -> None:
    for data in (b"12345\n", b"12345"):
        assert read(reader_of(max_line_bytes=5), data).bodies == [b"12345"]


def test_a_very_long_line_is_passed_over_in_pieces() -> None:
    reader = reader_of(max_line_bytes=1000)
    data = b"x" * 100_000 + b"\nnext\n"
    outcome = read(reader, data, [reader.most_bytes] * 200)
    assert outcome.bodies == [b"x" * 1000, b"next"]
    assert outcome.events[1][0] == 100_001
    first = reader.cut(data[:2000], 0, now_millis=NOW, final=False)
    assert (first.consumed, first.skipping) == (2000, True)
    later = reader.cut(data[2000:4000], 2000, now_millis=NOW, final=False, skipping=True)
    assert (later.consumed, later.skipping, later.events, later.lines) == (2000, True, None, 0)
    ended = reader.cut(data[4000:5000], 4000, now_millis=NOW, final=True, skipping=True)
    assert (ended.consumed, ended.skipping) == (1000, False)


def test_half_a_character_is_not_left_of_a_line_that_was_cut() -> None:
    assert read(reader_of(max_line_bytes=6), "Zürich Ü".encode()[:9]).bodies == ["Züric".encode()]
    assert read(reader_of(max_line_bytes=2), "Zü".encode()).bodies == [b"Z"]


def test_long_lines_as_dead_letters() -> None:
    size = 3 * MOST_RAW
    reader = reader_of(max_line_bytes=size, long_lines=LongLines.DEAD)
    outcome = read(reader, b"x" * 10 * size + b"\nnext\n", [reader.most_bytes] * 9)
    assert outcome.bodies == [b"next"]
    (dead,) = outcome.dead
    reason = f"line longer than {size} bytes"
    assert (dead.raw, dead.size, dead.position) == (b"x" * MOST_RAW, 10 * size + 1, 0)
    assert dead.reason == reason
    assert outcome.excepted == {(Fate.DEAD_LETTERED, reason): 1}


def test_a_dead_long_line_is_redacted() -> None:
    redact = (Redaction(pattern="secret", replacement="***"),)
    reader = reader_of(max_line_bytes=20, long_lines=LongLines.DEAD, redact=redact)
    (dead,) = read(reader, b"my secret" + b"x" * 50).dead
    assert dead.raw == b"my ***" + b"x" * 11


STACK = b"1 Error\n  at a\n  at b\n2 fine\n3 Error\n  at c\n"


@pytest.mark.parametrize(
    "multiline",
    [Multiline(start=r"^\d"), Multiline(continuation=r"^\s"), Multiline(indentation=True)],
)
def test_several_lines_are_one_event(multiline: Multiline) -> None:
    outcome = read(reader_of(multiline=multiline), STACK)
    assert outcome.bodies == [b"1 Error\n  at a\n  at b", b"2 fine", b"3 Error\n  at c"]
    assert [event[0] for event in outcome.events] == [0, 22, 29]
    assert outcome.lines == 6


def test_the_last_event_waits_for_what_may_belong_to_it() -> None:
    reader = reader_of(multiline=Multiline(indentation=True, timeout=3.0), last_line_timeout=9.0)
    cut = reader.cut(STACK, 0, now_millis=NOW, final=False)
    assert (cut.consumed, cut.lines, cut.wait) == (29, 4, 3.0)
    cut = reader.cut(STACK + b" hal", 0, now_millis=NOW, final=False)
    assert (cut.consumed, cut.wait) == (29, 9.0)
    assert reader.cut(STACK, 0, now_millis=NOW, final=True).consumed == len(STACK)


def test_an_event_has_its_most_lines_and_no_more_bytes_than_a_line() -> None:
    lines = b"1\n" + b" 2\n" * 6
    outcome = read(reader_of(multiline=Multiline(indentation=True, max_lines=3)), lines)
    assert outcome.bodies == [b"1\n 2\n 2", b" 2\n 2\n 2", b" 2"]
    outcome = read(reader_of(multiline=Multiline(indentation=True), max_line_bytes=8), lines)
    assert outcome.bodies == [b"1\n 2\n 2", b" 2\n 2\n 2", b" 2"]


def test_whole_events_are_taken_when_lines_are_limited() -> None:
    reader = reader_of(multiline=Multiline(indentation=True))
    cut = reader.cut(STACK, 0, now_millis=NOW, final=True, most_lines=1)
    assert (cut.lines, cut.consumed) == (3, 22)
    for most in (4, 5):
        cut = reader.cut(STACK, 0, now_millis=NOW, final=True, most_lines=most)
        assert (cut.lines, cut.consumed) == (4, 29)


def test_a_last_line_without_its_end_counts_in_full() -> None:
    reader = reader_of(multiline=Multiline(indentation=True), max_line_bytes=8)
    assert read(reader, b"1\n 2\n 345").bodies == [b"1\n 2", b" 345"]
    cut = reader.cut(b"1\n 2\n 345", 0, now_millis=NOW, final=True)
    assert cut.events is not None
    assert cut.events.bodies == [b"1\n 2", b" 345"]
    assert read(reader, b"1\n 2\n 34\n").bodies == [b"1\n 2\n 34"]


def test_an_event_that_has_its_most_lines_waits_for_no_more() -> None:
    reader = reader_of(multiline=Multiline(indentation=True, max_lines=3))
    assert reader.cut(b"1\n 2\n 3\n", 0, now_millis=NOW, final=False).consumed == 8


def test_half_a_line_feed_is_no_part_of_a_line() -> None:
    given = {"encoding": "utf-16-le", "max_line_bytes": 14}
    data = " b\n b\n \n".encode("utf-16-le")
    reader = reader_of(multiline=Multiline(indentation=True), **given)
    assert read(reader, data, [15]).bodies == [b" b\n b\n "]
    long = ("x" * 20 + "\nnext\n").encode("utf-16-le")
    assert read(reader_of(**given), long, [41, 41]).bodies == [b"x" * 7, b"next"]


def test_a_byte_order_mark_further_on_is_text() -> None:
    assert read(reader_of(), "\n\ufeffx\n".encode(), [1]).bodies == [b"", "\ufeffx".encode()]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"total 7\r\n", b"total 7"),
        (b"total 7\r\r\n", b"total 7\r"),
        (b"a\rb\n", b"a\rb"),
        (b"end\r", b"end"),
    ],
)
def test_one_carriage_return_belongs_to_the_line_break(data: bytes, message: bytes) -> None:
    """As docs/agent.md says it."""
    outcome = read(reader_of(), data)
    assert (outcome.bodies, outcome.consumed) == ([message], len(data))


# Splitting in C finds the lines that splitting in Python does

if splitting.NATIVE:
    pass
in_c = needs(splitting.NATIVE, "agent/encoding/lines/_line_splitting.c")

LF = 10
piece = st.binary(max_size=30) | st.sampled_from(
    (b"", b"\n", b"\r\n", b"\r", b"\n\n\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"x" * 5_000)
)
chunks = st.lists(piece, max_size=30).map(b"".join)
positions = st.sampled_from((0, 1, 199, 2**31 - 1, 2**31, 2**48, 2**62))
most = st.just(ALL) | st.integers(0, 20)


@in_c
@given(chunks, st.sampled_from((LF, 0x25, 0, 255)), positions, most)
@example(b"", LF, 0, ALL)
@example(b"\n", LF, 0, 1)
@example(b"no end", LF, 7, ALL)
@example(b"\n" * 1_000, LF, 2**40, 999)
def test_it_finds_the_same(chunk: bytes, line_break: int, position: int, most: int) -> None:
    found = lines_of(chunk, line_break, position, most, native=True)
    assert found == lines_of(chunk, line_break, position, most, native=False)
    bodies, places, longest = found
    assert places[0] == position
    assert [end - start for start, end in pairwise(places)] == [len(each) + 1 for each in bodies]
    assert longest == max(map(len, bodies), default=0)


@in_c
@given(chunks, positions, st.none() | st.integers(1, 20), st.booleans())
def test_lines_are_those_of_the_chunk(
    chunk: bytes, position: int, most: int | None, final: bool
) -> None:
    """By all that is known of them, put together again."""
    lines = line_encoding("utf-8").lines(chunk, position, most, final=final)
    end = lines.positions[-1] - position
    assert end + lines.rest == len(chunk)
    starts = [each - position for each in lines.positions]
    raw = [chunk[start:end] for start, end in pairwise(starts)]
    broken = [each for each in raw if not each.endswith(b"\n")]
    assert broken == (raw[-1:] if lines.unfinished else [])
    assert all(each.count(b"\n") == 1 for each in raw if each not in broken)
    assert lines.longest == max((len(each.removesuffix(b"\n")) for each in raw), default=0)
    for at, (each, body) in enumerate(zip(raw, lines.bodies, strict=True)):
        text = each.removesuffix(b"\n").decode("utf-8", "replace").encode()
        if not at and not position:
            text = text.removeprefix(b"\xef\xbb\xbf")
        assert body == text.removesuffix(b"\r")

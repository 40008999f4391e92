"""Which events are shipped, and what leaves no host."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.accounting.runs import Fate
from agent.configuration.inputs import Format
from agent.configuration.lines import Filter, Redaction
from agent.encoding.events.redaction import WINDOW, Redactor
from agent.encoding.lines.patterns import MOST_CHARACTERS
from agent.errors import InputError
from tests.agent.encoding.events.reading import read, reader_of, schema_of


def kept(lines: list[str], *filters: Filter, **given: Any) -> list[str]:
    outcome = read(reader_of(filters=filters, **given), "\n".join([*lines, ""]).encode())
    dropped = sum(n for (fate, _), n in outcome.excepted.items() if fate is Fate.FILTERED)
    assert len(outcome.bodies) + dropped == len(lines)
    return [body.decode() for body in outcome.bodies]


LINES = ["ERROR a", "DEBUG a", "DEBUG b", "INFO a", "INFO b"]


def test_the_first_filter_that_applies_decides() -> None:
    assert kept(LINES, Filter(drop="DEBUG")) == ["ERROR a", "INFO a", "INFO b"]
    assert kept(LINES, Filter(keep="a$")) == ["ERROR a", "DEBUG a", "INFO a"]
    assert kept(LINES, Filter(drop="DEBUG"), Filter(keep="a$")) == ["ERROR a", "INFO a"]
    assert kept(LINES, Filter(keep="a$"), Filter(drop="DEBUG")) == ["ERROR a", "DEBUG a", "INFO a"]
    assert kept(LINES, Filter(keep="ERR"), Filter(keep="b$")) == ["ERROR a", "DEBUG b", "INFO b"]
    assert kept(LINES, Filter(drop="nothing")) == LINES


def test_a_sample_is_the_same_every_time() -> None:
    lines = [f"line {n}" for n in range(4000)]
    shipped = kept(lines, Filter(sample=4))
    assert 900 < len(shipped) < 1100
    assert kept(lines[::-1], Filter(sample=4)) == shipped[::-1]
    assert kept(lines, Filter(keep="1"), Filter(sample=4)) == [
        each for each in lines if "1" in each or each in shipped
    ]
    some = kept(lines, Filter(sample=1000, match="7$"))
    assert [each for each in lines if not each.endswith("7")] == [
        each for each in some if not each.endswith("7")
    ]
    assert len(some) < 3650


def test_dropped_lines_are_counted_by_filter() -> None:
    filters = (Filter(drop="DEBUG", name="noise"), Filter(sample=2, match="INFO"), Filter(drop="x"))
    lines = b"DEBUG 1\nDEBUG 2\nx\n" + b"".join(b"INFO %d\n" % n for n in range(100))
    outcome = read(reader_of(filters=filters), lines)
    assert set(outcome.excepted) == {
        *((Fate.FILTERED, "noise"), (Fate.FILTERED, "sample: 2"), (Fate.FILTERED, "drop: x"))
    }
    assert outcome.excepted[Fate.FILTERED, "noise"] == 2


def test_filters_look_at_fields() -> None:
    schema = schema_of(level="string", n=["null", "long"])
    lines = (
        b'{"level": "debug", "n": 1}\n{"level": "info", "n": 1}\n{"level": "info", "n": 12}\n'
        b'{"level": "debug", "n": {}}\nDEBUG\n{"level": "info", "u": {"id": "bot"}}\n'
    )
    filters = (
        Filter(drop="^debug$", field="level", name="debug"),
        Filter(drop="^1$", field="n", name="one"),
        Filter(drop="bot", field="u.id", name="bots"),
    )
    outcome = read(reader_of(schema, format=Format.JSON, filters=filters), lines)
    assert outcome.bodies == [b"\x08info\x02\x18"]
    assert outcome.excepted == {
        (Fate.FILTERED, "debug"): 2,
        (Fate.FILTERED, "one"): 1,
        (Fate.FILTERED, "bots"): 1,
        (Fate.DEAD_LETTERED, "format"): 1,
    }


def test_filters_look_at_lines_that_are_all_right() -> None:
    filters = (Filter(drop="b"),)
    outcome = read(
        reader_of(schema_of(a="string"), format=Format.JSON, filters=filters),
        b'{"a": "x"}\n{"a": "b"}\n',
    )
    assert outcome.bodies == [b"\x02x"]


def test_a_pattern_is_given_the_beginning_of_a_long_line() -> None:
    for before, found in ((MOST_CHARACTERS - 1, True), (MOST_CHARACTERS, False)):
        line = "a" * before + "X"
        assert (kept([line], Filter(drop="X")) == []) is found


def test_plain_lines_have_one_field() -> None:
    assert kept(LINES, Filter(drop="DEBUG", field="message")) == ["ERROR a", "INFO a", "INFO b"]
    with pytest.raises(InputError, match="`filters`: lines of `format: plain` have no field level"):
        reader_of(filters=(Filter(drop="x", field="level"),))


def redacted(text: str, *redactions: Redaction) -> str:
    return Redactor(redactions).text(text)


def test_redaction() -> None:
    card = Redaction(pattern=r"(\d{4})-\d{4}", replacement=r"\1-****")
    assert redacted("a 1234-5678 b 1111-2222", card) == "a 1234-**** b 1111-****"
    assert redacted("none", card) == "none"
    name = Redaction(pattern="(?P<who>bob|eve)@x", replacement=r"<\g<who>>")
    assert redacted("eve@x 1234-5678", card, name) == "<eve> 1234-****"
    assert redacted("gone", Redaction(pattern="g.")) == "ne"


def test_a_digest_is_keyed_and_always_the_same() -> None:
    keyed, other = (Redaction(pattern="b.b", hash=True, key=key) for key in ("k", "l"))
    texts = [redacted("user bob!", each) for each in (keyed, other, keyed)]
    assert texts[0] == texts[2] != texts[1]
    assert all(len(text) == len("user !") + 32 and "bob" not in text for text in texts)
    long = redacted("bob", Redaction(pattern="bob", hash=True, key="k" * 100))
    assert len(long) == 32


@pytest.mark.parametrize("replacement", [r"\2", r"\g<nobody>", "\\q"])
def test_a_replacement_that_cannot_be(replacement: str) -> None:
    with pytest.raises(InputError, match="`replacement: "):
        reader_of(redact=(Redaction(pattern="(x)", replacement=replacement),))


@given(
    filler=st.integers(0, 3 * WINDOW),
    after=st.integers(0, 2 * WINDOW),
    size=st.sampled_from([1, 16, WINDOW // 2 - 10, WINDOW, 3 * WINDOW]),
)
def test_a_secret_is_found_wherever_it_is_in_a_long_line(
    filler: int, after: int, size: int
) -> None:
    text = "x " * (filler // 2) + "key=" + "s" * size + " " + "y " * (after // 2)
    key = Redaction(pattern=r"\bkey=\S+", replacement="key=***")
    assert redacted(text, key) == text.replace("s" * size, "***")


def test_patterns_that_match_nothing_in_between() -> None:
    """As `re.sub` does it, in short lines and long ones."""
    marks = Redaction(pattern=r"(?<=a)\d*", replacement="#")
    assert redacted("a12 a3", marks) == "a# a#"
    long = "a12 a3 " + "x" * 2 * WINDOW + " a45 a"
    assert redacted(long, marks) == "a# a# " + "x" * 2 * WINDOW + " a# a#"


def test_matches_that_touch_each_other_in_a_long_line() -> None:
    pair = Redaction(pattern="ab|b", replacement="#")
    assert redacted("x" * WINDOW + "abbabx", pair) == "x" * WINDOW + "###x"


SECRET = (Redaction(pattern=r"s\wcret", replacement="***"),)


def test_redaction_comes_before_everything() -> None:
    schema = schema_of(msg="string", n=("long", 0))
    lines = (
        b'{"msg": "a secret"}\n{"msg": "a secret", "n": "secret"}\nno secret\n'
        b'{"msg": 1, "secret": 1}\n'
    )
    reader = reader_of(schema, format=Format.JSON, redact=SECRET, filters=(Filter(keep=r"\*\*\*"),))
    outcome = read(reader, lines)
    assert outcome.bodies == [b"\x0aa ***\x00", b"\x021\x00"]
    assert [dead.raw for dead in outcome.dead] == [b'{"msg": "a ***", "n": "***"}', b"no ***"]
    assert outcome.dead[1].size == len("no secret\n")
    assert "secret" not in "".join(dead.reason for dead in outcome.dead)


def test_what_is_no_text_is_redacted_around() -> None:
    outcome = read(reader_of(redact=SECRET), b"\xff secret \xff\n")
    assert outcome.bodies == ["\ufffd *** \ufffd".encode()]
    outcome = read(reader_of(redact=SECRET, encoding="utf-16"), "ü secret\n".encode("utf-16-le"))
    assert outcome.bodies == ["ü ***".encode()]


def test_messages_in_containers_are_redacted_when_they_are_whole() -> None:
    lines = (
        b"2026-11-20T14:00:00.1Z stdout P my se\n2026-11-20T14:00:00.1Z stdout F cret\n"
        b"broken secret\n"
    )
    outcome = read(reader_of(format=Format.CRI, redact=SECRET), lines)
    assert outcome.bodies == [b"my ***"]
    assert [dead.raw for dead in outcome.dead] == [b"broken ***"]
    bad = lines.replace(b"14:00", b"99:00")
    dead = read(reader_of(format=Format.CRI, redact=SECRET), bad).dead
    assert [each.raw for each in dead] == [b"my ***", b"broken ***"]

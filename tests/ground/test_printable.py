"""Whatever text holds, a terminal is shown one line."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.printable import error_words, one_line, path_text, plain_words

ANYTHING = st.text(st.characters(exclude_categories=())) | st.binary().map(os.fsdecode)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("/var/log/ä.log, 日本", "/var/log/ä.log, 日本"),
        ("two\nlines\tand\r\x1b[31m", r"two\nlines\tand\r\x1b[31m"),
        ("\u2028\u202e\U000e0001\x85", r"\u2028\u202e\U000e0001\x85"),
        (os.fsdecode(b"/l/\xff\xc3\x84\n.log"), r"/l/\xffÄ\n.log"),
        ("\ud800\udc7f\udd00", r"\ud800\udc7f\udd00"),  # no bytes of a name
        (r"a \ stays", r"a \ stays"),
    ],
)
def test_what_cannot_be_printed_is_escaped(text: str, shown: str) -> None:
    assert one_line(text) == shown


@given(ANYTHING)
def test_anything_becomes_one_line_that_can_be_written(text: str) -> None:
    shown = one_line(text)
    assert shown.isprintable()
    assert shown.encode().decode() == shown
    assert one_line(shown) == shown


@given(ANYTHING)
def test_of_anything_the_words_are_left(text: str) -> None:
    shown = plain_words(text)
    assert shown.isprintable()
    assert shown == " ".join(shown.split())
    assert [each for each in text if each.isprintable() and each != " "] == [
        each for each in shown if each != " "
    ]


def test_what_cannot_be_printed_stands_between_words() -> None:
    assert plain_words(" two\n lines\x1band\u202e") == "two lines and"


@given(st.binary())
def test_a_name_is_text_that_utf_8_can_hold(name: bytes) -> None:
    assert path_text(os.fsdecode(name)) == name.decode(errors="replace")


def test_an_error_without_a_text_is_named() -> None:
    errors = (TimeoutError(), TimeoutError("late"), OSError(2, "No such file"))
    assert [error_words(error) for error in errors] == ["TimeoutError", "late", "No such file"]

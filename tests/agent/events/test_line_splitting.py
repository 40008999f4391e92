"""Splitting in C finds the lines that splitting in Python does."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.events import splitting
from agent.events.encodings import line_encoding
from agent.events.splitting import ALL, lines_of

if splitting.NATIVE:
    from agent.events._line_splitting import split
else:
    pytest.skip(
        "agent/events/_line_splitting.c is not compiled: `python hatch_build.py`, with a C "
        "compiler and Python's headers",
        allow_module_level=True,
    )

LF = 10
piece = st.binary(max_size=30) | st.sampled_from(
    (b"", b"\n", b"\r\n", b"\r", b"\n\n\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"x" * 5_000)
)
chunks = st.lists(piece, max_size=30).map(b"".join)
positions = st.sampled_from((0, 1, 199, 2**31 - 1, 2**31, 2**48, 2**62))
most = st.just(ALL) | st.integers(0, 20)


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


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        (b"", LF, 0),
        (bytearray(), LF, 0, 1),
        ("", LF, 0, 1),
        (b"", b"\n", 0, 1),
        (b"", LF, 0.0, 1),
        (b"", LF, 0, None),
    ],
)
def test_what_is_called_wrongly_is_refused(wrong: tuple[Any, ...]) -> None:
    called: Any = split
    with pytest.raises(TypeError):
        called(*wrong)


@pytest.mark.parametrize(
    "wrong",
    [(b"", 256, 0, 1), (b"", -1, 0, 1), (b"x", LF, -1, 1), (b"x", LF, 2**63 - 1, 1)],
)
def test_what_cannot_be_a_place_is_refused(wrong: tuple[Any, ...]) -> None:
    called: Any = split
    with pytest.raises(OverflowError):
        called(*wrong)
    for beyond in (2**63, -(2**64)):
        with pytest.raises(OverflowError):
            called(b"", LF, beyond, 1)

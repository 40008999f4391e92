"""Framing in C writes the bytes that framing in Python does."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.batches import framing
from agent.batches.framing import Frame, Stretch, framed

if framing.NATIVE:
    from agent.batches._record_framing import frame, measure
else:
    pytest.skip(
        "agent/batches/_record_framing.c is not compiled: `python hatch_build.py`, with a C "
        "compiler and Python's headers",
        allow_module_level=True,
    )

NOW = 1_795_132_800_123
EDGES = (0, 63, 64, 127, 128, 8191, 8192, 2**20, 2**27, 2**31, 2**34, 2**41, 2**48, 2**62)

numbers = st.sampled_from(EDGES).flatmap(lambda edge: st.integers(max(0, edge - 20), edge + 20))
a_time = (
    st.integers(-(2**40), 2**40)
    | st.integers(NOW - 100, NOW + 100)
    | st.sampled_from((-(2**63), -(2**62), -1, 0, 8191, 8192, 2**62, 2**63 - 1))
)
body = (
    st.binary(max_size=80)
    | st.sampled_from((b"", b"\0", b"\r", b"\xff\xfe", b"\n\n", "é".encode()))
    | st.sampled_from((63, 64, 8_100, 8_191, 8_192, 70_000)).map(lambda size: b"\0\xff" * size)
)


@st.composite
def stretches(draw: st.DrawFn) -> Stretch:
    bodies = draw(st.lists(body, min_size=1, max_size=12))
    count = len(bodies)
    first = draw(numbers)
    many = st.lists(a_time, min_size=count, max_size=count)
    ascending = st.lists(numbers, min_size=count, max_size=count, unique=True).map(sorted)
    return Stretch(
        Frame(*draw(st.tuples(*[st.binary(max_size=40)] * 3)), plain=draw(st.booleans())),
        times=draw(a_time | many),
        seqs=draw(st.just(range(first, first + count)) | ascending),
        positions=draw(ascending | st.just(list(range(first, first + 200 * count, 200)))),
        bodies=bodies,
        keys=draw(st.none() | st.lists(body, min_size=count, max_size=count)),
    )


def outcome(act: Callable[[], bytes]) -> bytes | None:
    """None for a number that does not fit."""
    try:
        return act()
    except OverflowError:
        return None


@given(st.lists(stretches(), min_size=1, max_size=4))
def test_it_writes_the_same_bytes(several: Sequence[Stretch]) -> None:
    base = min(each.earliest for each in several)
    quickly = outcome(lambda: framed(several, base, native=True))
    assert quickly == outcome(lambda: framed(several, base, native=False))


def test_all_at_once_is_the_same_too() -> None:
    """More events than any table of numbers has, in parts that begin anywhere."""
    bodies = [b"%d" % at * (at % 7) for at in range(20_000)]
    positions = [*range(8_000, 8_000 + 20_000 * 50, 50)]
    whole = Stretch(
        Frame(b"head", b"identity", b"path", plain=True),
        times=[NOW + at % 9_000 for at in range(20_000)],
        seqs=range(60, 20_060),
        positions=positions,
        bodies=bodies,
    )
    parts = [whole.part(0, 1), whole.part(1, 9_999), whole.part(9_999, 20_000)]
    for several in ([whole], parts, parts[::-1]):
        assert framed(several, NOW, native=True) == framed(several, NOW, native=False)
    assert framed(parts, NOW) == framed([whole], NOW)


@given(st.lists(body, min_size=1, max_size=50))
def test_bodies_are_measured(bodies: list[bytes]) -> None:
    assert measure(bodies) == (sum(map(len, bodies)), max(map(len, bodies)))


GOOD: tuple[Any, ...] = (b"", b"", b"", True, 0, 0, 0, [b""], None)


@pytest.mark.parametrize(
    ("place", "wrong", "expected"),
    [
        (0, "head", TypeError),
        (1, bytearray(b"identity"), TypeError),
        (2, None, TypeError),
        (4, True, TypeError),
        (4, 1.0, TypeError),
        (4, [], TypeError),
        (4, [1, 2], TypeError),
        (4, ["1"], TypeError),
        (4, 2**63, OverflowError),
        (4, [-(2**63) - 1], OverflowError),
        (5, 2**63 - 1, OverflowError),
        (5, range(1), TypeError),
        (6, [2**64], OverflowError),
        (7, (b"",), TypeError),
        (7, [b"", b""], None),
        (7, [""], TypeError),
        (7, [None], TypeError),
        (8, [], TypeError),
        (8, [None], TypeError),
        (8, (b"",), TypeError),
    ],
)
def test_what_is_no_stretch_is_refused(
    place: int, wrong: object, expected: type[Exception] | None
) -> None:
    given_: Any = (*GOOD[:place], wrong, *GOOD[place + 1 :])
    assert frame((GOOD,), 0)
    if expected is None:
        assert frame((given_,), 0)
        return
    with pytest.raises(expected):
        frame((GOOD, given_), 0)


def test_what_is_called_wrongly_is_refused() -> None:
    called: Any = frame
    wrongly: list[Any] = [(), ([],), ((), 0, 1), ([GOOD], 0), ((GOOD[:8],), 0), (([],), 0)]
    for arguments in [*wrongly, ((), 0.0)]:
        with pytest.raises(TypeError):
            called(*arguments)
    with pytest.raises(OverflowError):
        called(((*GOOD[:4], 1, *GOOD[5:]),), -(2**63))
    measured: Any = measure
    for wrong in ((b"",), None, [""], [bytearray()]):
        with pytest.raises(TypeError):
            measured(wrong)
    assert called((), 0) == b""

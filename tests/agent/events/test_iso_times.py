"""Times in C: a column has the moments that it has without it."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.config_lines import Time
from agent.events import times
from agent.events.faults import LineFault
from agent.events.times import time_reader, times_of

if times.NATIVE:
    from agent.events._iso_times import moments
else:
    pytest.skip(
        "agent/events/_iso_times.c is not compiled: `python hatch_build.py`, with a C compiler and "
        "Python's headers",
        allow_module_level=True,
    )

zones = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
usual = st.builds(
    lambda at, sep, unit, zulu: at.isoformat(sep, unit).replace(
        "+00:00", "Z" if zulu else "+00:00"
    ),
    st.datetimes(timezones=st.just(UTC) | zones),
    st.sampled_from("T "),
    st.sampled_from(("seconds", "milliseconds", "microseconds")),
    st.booleans(),
)
PARTS = (
    st.sampled_from(
        ("0000", "0001", "1600", "1900", "1969", "1970", "2000", "2026", "9999", "x026")
    ),
    st.sampled_from(("-", "/")),
    st.sampled_from(("00", "01", "02", "04", "12", "13", "1 ")),
    st.sampled_from(("-", "-", "", ":")),
    st.sampled_from(("00", "01", "28", "29", "30", "31", "32")),
    st.sampled_from(("T", "T", " ", "t", "_", "é")),
    st.sampled_from(("00", "23", "24", "-1")),
    st.just(":"),
    st.sampled_from(("00", "59", "60")),
    st.just(":"),
    st.sampled_from(("00", "59", "60", "61", "+5")),
    st.sampled_from(
        ("", ".", ",", ".1", ".12", ".123", ",123456", ".123456789", ".1234567890", ".x")
    ),
    st.sampled_from(
        ("Z", "z", "", "+00:00", "-00:00", "+23:59", "-23:59", "+24:00", "+01:60", "+0100")
    ),
    st.sampled_from(("", "", "", " ", "\0", "é", "\ud800")),
)
odd = st.tuples(*PARTS).map("".join)
anything = usual | odd | st.text(max_size=40) | st.integers() | st.none() | st.floats()


def outcome(values: list[Any], *, native: bool) -> list[int] | str:
    read = time_reader(Time(field="t"))
    try:
        return times_of(read, values, 0, native=native)
    except LineFault as fault:
        return str(fault)


@given(st.lists(anything, max_size=5))
@example(["2026-02-29T00:00:00Z"])
@example(["2024-02-29T00:00:00.999999Z", "1969-12-31T23:59:59.9999Z"])
def test_they_are_the_same(values: list[Any]) -> None:
    assert outcome(values, native=True) == outcome(values, native=False)


@given(usual)
def test_the_usual_ones_are_read(text: str) -> None:
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    expected = since // timedelta(milliseconds=1)
    subminute = text.count(":") > 3
    assert moments([text]) == [None if subminute else expected]


def test_every_day_of_eight_centuries() -> None:
    first = datetime(1583, 1, 1, tzinfo=UTC)
    days = [first + timedelta(days=at) for at in range(300_000)]
    found = moments([f"{day:%Y-%m-%dT%H:%M:%S}Z" for day in days])
    assert found == [int(day.timestamp()) * 1000 for day in days]


def test_what_is_no_list_is_refused() -> None:
    called: Any = moments
    for wrong in (None, (), "2026-11-20T00:00:00Z"):
        with pytest.raises(TypeError):
            called(wrong)
    assert moments([]) == []

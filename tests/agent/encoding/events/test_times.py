"""When an event happened, in every way in which a line may say so."""

import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.configuration.inputs import Format
from agent.configuration.lines import Time
from agent.encoding.events import times
from agent.encoding.events.times import time_reader, times_of
from agent.encoding.lines.faults import LineFault
from agent.errors import InputError
from tests.agent.compiled import needs
from tests.agent.encoding.events.reading import NOW, read, reader_of, schema_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def millis(text: str) -> int:
    """What Python says."""
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)


def read_time(value: Any, format_: str = "iso8601", zone: str = "UTC", now: int = NOW) -> int:
    return time_reader(Time(field="t", format=format_, zone=zone))(value, now)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2026-11-20T14:30:00Z", "2026-11-20T14:30:00+00:00"),
        ("2026-11-20T14:30:00.1Z", "2026-11-20T14:30:00.100+00:00"),
        ("2026-11-20T14:30:00.123Z", "2026-11-20T14:30:00.123+00:00"),
        ("2026-11-20 14:30:00,123", "2026-11-20T14:30:00.123+00:00"),
        ("2026-11-20T14:30:00.123987654Z", "2026-11-20T14:30:00.123+00:00"),
        ("2026-11-20T14:30:00.123456+05:30", "2026-11-20T14:30:00.123+05:30"),
        ("2026-11-20T14:30:00.123-0800", "2026-11-20T14:30:00.123-08:00"),
        ("20261120T143000Z", "2026-11-20T14:30:00+00:00"),
        ("2026-11-20", "2026-11-20T00:00:00+00:00"),
        (" 2026-11-20T14:30Z ", "2026-11-20T14:30:00+00:00"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00+00:00"),  # a leap second
        ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999+00:00"),
    ],
)
def test_iso8601(text: str, same: str) -> None:
    read_it = time_reader(Time(field="t"))
    for _ in range(2):  # the second time it is remembered
        assert read_it(text, NOW) == millis(same)


@given(
    at=st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)),
    digits=st.sampled_from(["auto", "milliseconds", "microseconds", "seconds"]),
    zone=st.sampled_from(["Z", "+00:00", "+01:00", "-09:30"]),
    separator=st.sampled_from("T "),
)
def test_iso8601_is_what_python_reads(at: datetime, digits: str, zone: str, separator: str) -> None:
    read_it = time_reader(Time(field="t"))
    texts = [
        each.isoformat(separator, digits) + zone for each in (at, at.replace(microsecond=7999), at)
    ]
    assert [read_it(each, NOW) for each in texts] == [millis(each) for each in texts]


@pytest.mark.parametrize(
    "value",
    [
        *("", "today", "2026-13-01T00:00:00Z", 1_795_185_000, None, True, ["x"]),
        *("2026-11-20T14:30:00.12aZ", "2026-11-20T14:30:00.१२३Z", "x" * 10_000, "0000-01-01"),
        *("2026-11-20T14:30:00.123Z junk", f"2026-11-20T14:30:00.123{'0' * 200}Z"),
    ],
)
def test_what_is_no_iso8601(value: Any) -> None:
    read_it = time_reader(Time(field="t"))
    read_it("2026-11-20T14:30:00.123Z", NOW)
    for _ in range(2):
        with pytest.raises(LineFault, match=r"is not an ISO 8601 time$") as caught:
            read_it(value, NOW)
        assert len(caught.value.reason) < 150


def test_zones_of_times_that_do_not_say_theirs() -> None:
    zurich = "Europe/Zurich"
    assert read_time("2026-11-20T14:30:00", zone=zurich) == millis("2026-11-20T14:30:00+01:00")
    assert read_time("2026-07-20T14:30:00", zone=zurich) == millis("2026-07-20T14:30:00+02:00")
    assert read_time("2026-07-20T14:30:00Z", zone=zurich) == millis("2026-07-20T14:30:00+00:00")
    twice = "2026-10-25T02:30:00"  # the clock was put back: the first time counts
    assert read_time(twice, zone=zurich) == millis("2026-10-25T02:30:00+02:00")


@pytest.mark.parametrize(
    ("format_", "value", "expected"),
    [
        ("epoch", 1_795_185_000, NOW),
        ("epoch", 1_795_185_000.123, NOW + 123),
        ("epoch", "1795185000.123999", NOW + 123),
        ("epoch", "1795185000", NOW),
        ("epoch", "1795185000.", NOW),
        ("epoch", -1, -1000),
        ("epoch", "-0.001", -1),
        ("epoch_ms", NOW + 7, NOW + 7),
        ("epoch_ms", float(NOW), NOW),
        ("epoch_ms", str(NOW), NOW),
        ("epoch_us", NOW * 1000 + 999, NOW),
        ("epoch_us", f"{NOW}999.5", NOW),
        ("epoch_ns", NOW * 1_000_000 + 999_999, NOW),
        ("epoch_ns", f"{NOW}999999", NOW),
    ],
)
def test_epochs(format_: str, value: Any, expected: int) -> None:
    assert read_time(value, format_) == expected


@given(at=st.integers(0, 4_102_444_800_000))
def test_milliseconds_survive_a_float(at: int) -> None:
    assert read_time(at / 1000, "epoch") == at


@pytest.mark.parametrize(
    "value", ["", "x", None, True, "1e9", "nan", float("inf"), 10**40, "9" * 50]
)
def test_what_is_no_epoch(value: Any) -> None:
    with pytest.raises(LineFault, match="is not a number of seconds"):
        read_time(value, "epoch")


@pytest.mark.parametrize(
    ("text", "now", "same"),
    [
        ("Nov 20 14:30:00", "2026-11-20T14:30:00+00:00", "2026-11-20T14:30:00+00:00"),
        ("Nov  2 01:02:03", "2026-11-20T14:30:00+00:00", "2026-11-02T01:02:03+00:00"),
        ("Nov 20 14:30:00.25", "2026-11-20T14:30:00+00:00", "2026-11-20T14:30:00.250+00:00"),
        ("Dec 31 23:59:59", "2027-01-01T00:00:05+00:00", "2026-12-31T23:59:59+00:00"),
        ("Jan  1 00:00:01", "2026-12-31T23:59:59+00:00", "2027-01-01T00:00:01+00:00"),
        ("Nov 22 14:30:00", "2026-11-20T14:30:00+00:00", "2025-11-22T14:30:00+00:00"),
        ("Feb 29 12:00:00", "2027-11-20T14:30:00+00:00", "2024-02-29T12:00:00+00:00"),
        ("Feb 29 12:00:00", "2028-03-01T00:00:00+00:00", "2028-02-29T12:00:00+00:00"),
        ("Dec 31 23:59:60", "2027-01-01T00:00:05+00:00", "2027-01-01T00:00:00+00:00"),
    ],
)
def test_times_without_year(text: str, now: str, same: str) -> None:
    assert read_time(text, "rfc3164", now=millis(now)) == millis(same)
    if "." not in text and "60" not in text:
        assert read_time(text, "%b %d %H:%M:%S", now=millis(now)) == millis(same)


@pytest.mark.parametrize("format_", ["rfc3164", "%b %d %H:%M:%S"])
def test_the_year_goes_with_the_clock(format_: str) -> None:
    read_it = time_reader(Time(field="t", format=format_))
    for year in (2026, 2027, 2026):
        now = millis(f"{year}-11-20T14:30:00+00:00")
        assert [read_it("Nov 20 14:30:00", now) for _ in range(2)] == [now, now]


@pytest.mark.parametrize("value", ["Foo 20 14:30:00", "Nov 31 14:30:00", "Nov 20 25:30:00", 7, ""])
def test_what_is_no_time_of_syslog(value: Any) -> None:
    with pytest.raises(LineFault, match="is not a time such as Nov 20"):
        read_time(value, "rfc3164")


@pytest.mark.parametrize(
    ("pattern", "text", "same"),
    [
        ("%d/%b/%Y:%H:%M:%S %z", "20/Nov/2026:14:30:00 +0100", "2026-11-20T14:30:00+01:00"),
        ("%Y%m%d %H%M%S.%f", "20261120 143000.5", "2026-11-20T14:30:00.500+00:00"),
        ("%y-%j", "26-324", "2026-11-20T00:00:00+00:00"),
        ("100%% %Y-%m-%d", "100% 2026-11-20", "2026-11-20T00:00:00+00:00"),
    ],
)
def test_patterns(pattern: str, text: str, same: str) -> None:
    read_it = time_reader(Time(field="t", format=pattern))
    assert [read_it(each, NOW) for each in (text, text, f" {text}")] == [millis(same)] * 3
    for wrong in (f"{text} x", "", 7, None, "x" * 1000):
        with pytest.raises(LineFault, match="is not a time in the format"):
            read_it(wrong, NOW)


@pytest.mark.parametrize("pattern", ["%H:%M:%S", "%Y-%m", "%Q %d %Y", "%d %Y %", "%d %d"])
def test_patterns_that_cannot_be(pattern: str) -> None:
    with pytest.raises(InputError, match=r"^logs: `format: %"):
        reader_of(
            schema_of(a=("string", "")), format=Format.JSON, time=Time(field="t", format=pattern)
        )


def test_a_time_is_looked_for_inside_and_its_field_need_not_be_known() -> None:
    schema = schema_of(a="long")
    reader = reader_of(schema, format=Format.JSON, time=Time(field="at.ms", format="epoch_ms"))
    lines = f'{{"a": 1, "at": {{"ms": {NOW + 1}}}}}\n{{"a": 2, "at.ms": {NOW + 2}}}\n'
    lines += '{"a": 3, "at": 7}\n{"a": 4, "at": {"ms": "x"}}\n'
    outcome = read(reader, lines.encode())
    assert outcome.times == [NOW + 1, NOW + 2]
    assert [dead.reason for dead in outcome.dead] == [
        "no field at.ms with the time",
        "at.ms: 'x' is not a number",
    ]
    assert [dead.time for dead in outcome.dead] == [NOW, NOW]


def test_times_that_are_not_believed_are_put_on_the_bound_and_counted() -> None:
    schema = schema_of(a="long")
    reader = reader_of(schema, format=Format.JSON, time=Time(field="t", format="epoch_ms"))
    day = 86_400_000
    values = (0, NOW - 400 * day - 1, NOW - 400 * day, NOW + 3_600_000, NOW + 3_600_001, 9 * NOW)
    lines = "".join(f'{{"a": 1, "t": {value}}}\n' for value in values)
    outcome = read(reader, lines.encode())
    assert outcome.times == [NOW - 400 * day] * 3 + [NOW + 3_600_000] * 3
    assert outcome.clamped == 4
    (dead,) = read(reader, b'{"a": "x", "t": 5}\n').dead
    assert dead.time == NOW - 400 * day


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (Time(field="t"), "2026-11-20T14:37:00.123Z"),
        (Time(field="t", format="rfc3164"), "Nov 20 14:37:00"),
    ],
)
def test_long_texts_are_not_remembered(time: Time, text: str) -> None:
    """Anybody who writes lines could fill the memory with them."""
    read = time_reader(time)
    for size in range(20):
        read(text + " " * (1_000_000 + size), 1_795_000_000_000)
    assert len(pickle.dumps(vars(read))) < 10_000


# Times in C: a column has the moments that it has without it

if times.NATIVE:
    from agent.encoding.events._iso_times import moments
in_c = needs(times.NATIVE, "agent/encoding/events/_iso_times.c")

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


@in_c
@given(st.lists(anything, max_size=5))
@example(["2026-02-29T00:00:00Z"])
@example(["2024-02-29T00:00:00.999999Z", "1969-12-31T23:59:59.9999Z"])
def test_they_are_the_same(values: list[Any]) -> None:
    assert outcome(values, native=True) == outcome(values, native=False)


@in_c
@given(usual)
def test_the_usual_ones_are_read(text: str) -> None:
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    expected = since // timedelta(milliseconds=1)
    subminute = text.count(":") > 3
    assert moments([text]) == [None if subminute else expected]


@in_c
def test_every_day_of_eight_centuries() -> None:
    first = datetime(1583, 1, 1, tzinfo=UTC)
    days = [first + timedelta(days=at) for at in range(300_000)]
    found = moments([f"{day:%Y-%m-%dT%H:%M:%S}Z" for day in days])
    assert found == [int(day.timestamp()) * 1000 for day in days]

"""What can be asked, and what is said of what cannot."""

import contextlib
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.api import queries
from audit.api.queries import LONGEST_MILLIS, TopicQuery, asked, between
from audit.errors import BadQuery
from audit.http.resources import RESOURCES, Resource
from audit.reconciling.findings import State

MINUTE = 60_000
DAY = 86_400_000
NOW = 1_795_000_000_123


def test_everything_that_is_given_is_understood() -> None:
    query = (
        b"cluster=east&state=missing&search=%F0%9F%98%80+%26&sort=-events&hours=48&page=2&size=500"
    )
    found = asked(queries.TopicsQuery, query)
    assert (found.cluster, found.state, found.search) == ("east", State.MISSING, "😀 &")
    assert (found.sort, found.hours, found.page, found.size) == ("-events", 48, 2, 500)


def test_what_is_empty_was_not_given() -> None:
    assert asked(queries.TopicsQuery, b"state=&size=&search=") == queries.TopicsQuery()


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("size=501", "size"),
        ("size=0", "size"),
        ("size=-1", "size"),
        ("size=1e3", "size"),
        ("size=ten", "size"),
        (f"size={'9' * 500}", "size"),
        ("page=0", "page"),
        ("page=99999999", "page"),
        ("hours=169", "hours"),
        ("state=fine", "state"),
        ("sort=host", "sort"),
        ("sort=state;drop table", "sort"),
        (f"search={'x' * 20_000}", "search"),
        ("search=%ff", "UTF-8"),
        ("search=%ed%a0%80", "UTF-8"),
        ("page=1&page=2", "twice"),
        ("sizes=5", "unknown parameter `sizes`: allowed are page, size"),
        (f"{'x' * 500}=5", "`x+…`"),
        ("&".join(f"a{each}=1" for each in range(100)), "parameters"),
    ],
)
def test_what_cannot_be_meant_is_refused(query: str, why: str) -> None:
    with pytest.raises(BadQuery, match=why):
        asked(queries.TopicsQuery, query.encode())


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each.path)
@given(query=st.binary(max_size=200))
def test_nothing_else_is_raised(resource: Resource, query: bytes) -> None:
    with contextlib.suppress(BadQuery):
        asked(resource.query, query)


@given(st.text(min_size=1).filter(lambda text: text.isprintable()))
def test_any_name_can_be_asked_for(name: str) -> None:
    query = urlencode({"topic": name}, quote_via=quote)
    assert asked(TopicQuery, query.encode()).topic == name


@given(
    st.none() | st.integers(0, 2 * NOW),
    st.none() | st.integers(0, 2 * NOW),
    st.sampled_from([1_000, MINUTE, 3_600_000]),
)
def test_times_are_whole_windows(from_time: int | None, to_time: int | None, window: int) -> None:
    query = TopicQuery(topic="x", from_time=from_time, to_time=to_time)
    try:
        start, end = between(query, now=NOW, window=window, otherwise=DAY)
    except BadQuery:
        return
    assert start % window == end % window == 0
    assert 0 < end - start <= LONGEST_MILLIS + 2 * window
    assert start <= (end if from_time is None else from_time)
    assert to_time is None or end >= to_time


def test_the_last_day_is_meant() -> None:
    start, end = between(TopicQuery(topic="x"), now=NOW, window=MINUTE, otherwise=DAY)
    assert end - MINUTE <= NOW < end
    assert end - start <= DAY + MINUTE


@pytest.mark.parametrize(
    ("from_time", "to_time", "why"),
    [
        (DAY, DAY, "before"),
        (2 * DAY, DAY, "before"),
        (5, 4, "before"),  # in the same window
        (0, 32 * DAY, "31 days"),
        (NOW, NOW - DAY, "before"),
    ],
)
def test_times_that_cannot_be_meant(from_time: int, to_time: int, why: str) -> None:
    query = TopicQuery(topic="x", from_time=from_time, to_time=to_time)
    with pytest.raises(BadQuery, match=why):
        between(query, now=NOW, window=MINUTE, otherwise=DAY)

"""How many lines of an input may be taken."""

from hypothesis import given
from hypothesis import strategies as st

from agent.reading.feeds import Bucket


def test_without_a_rate_there_is_no_limit() -> None:
    bucket = Bucket.full(0, 5.0)
    assert bucket.lines(5.0) is None
    assert bucket.taken(10**9, 5.0).lines(5.0) is None


def test_a_bucket_fills_at_its_rate_up_to_a_second() -> None:
    bucket = Bucket.full(10, 100.0).taken(10, 100.0)
    assert bucket.lines(100.0) == 0
    assert bucket.lines(100.5) == 5
    assert bucket.lines(200.0) == 10
    assert bucket.lines(99.0) == 0, "a clock that goes back gives nothing"
    assert bucket.taken(0, 99.0).lines(100.0) == 0


def test_what_was_taken_too_much_is_made_up_for() -> None:
    bucket = Bucket.full(10, 0.0).taken(30, 0.0)
    assert bucket.lines(2.0) == 0
    assert bucket.lines(2.5) == 5


def test_less_than_a_line_a_second() -> None:
    bucket = Bucket.full(0.1, 0.0).taken(1, 0.0)
    assert (bucket.lines(9.0), bucket.lines(10.0)) == (0, 1)


@given(rate=st.floats(0.01, 1e6), steps=st.lists(st.floats(0, 5), max_size=50))
def test_never_more_than_the_rate_and_a_burst(rate: float, steps: list[float]) -> None:
    bucket, now, taken = Bucket.full(rate, 0.0), 0.0, 0
    for step in steps:
        now += step
        lines = bucket.lines(now) or 0
        bucket = bucket.taken(lines, now)
        taken += lines
    assert taken <= rate * now + max(1.0, rate) + 1e-3

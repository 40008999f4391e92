"""Ranges divided into slices, and a limit shared between partitions."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from loader.planning.slicing import Range, divide, share


def a_range(partition: int, first: int, end: int) -> Range:
    return Range(topic="t", topic_id="id", cluster="c", partition=partition, first=first, end=end)


def test_partitions_take_turns() -> None:
    slices = divide([a_range(0, 0, 100), a_range(3, 50, 60)], 40)
    assert [(each.number, each.partition, each.first, each.end) for each in slices] == [
        (0, 0, 0, 33),
        (1, 3, 50, 60),
        (2, 0, 33, 66),
        (3, 0, 66, 100),
    ]
    assert [each.from_within for each in slices] == [True, True, False, False]


def test_only_the_first_of_a_range_has_the_batch_that_it_begins_within() -> None:
    """Of the others it is the one before."""
    slices = divide([a_range(0, 7, 27)], 10)
    assert [each.from_within for each in slices] == [True, False]


ranges = st.lists(
    st.tuples(st.integers(0, 10**12), st.integers(1, 10**6)).map(
        lambda at: a_range(0, at[0], at[0] + at[1])
    ),
    max_size=5,
)


@given(found=ranges, offsets=st.integers(10**4, 10**6))
def test_slices_are_the_ranges(found: list[Range], offsets: int) -> None:
    by_partition = [a_range(partition, one.first, one.end) for partition, one in enumerate(found)]
    slices = divide(by_partition, offsets)
    assert [each.number for each in slices] == list(range(len(slices)))
    for one in by_partition:
        mine = [each for each in slices if each.partition == one.partition]
        assert mine[0].first == one.first
        assert mine[-1].end == one.end
        assert all(a.end == b.first for a, b in pairwise(mine))
        sizes = [each.end - each.first for each in mine]
        assert 0 < min(sizes) <= max(sizes) <= offsets
        assert max(sizes) - min(sizes) <= 1


def test_what_small_partitions_leave_over_goes_to_large_ones() -> None:
    assert share([100, 5, 0, 100], 65) == [30, 5, 0, 30]
    assert share([10, 20], 1000) == [10, 20]
    assert share([], 5) == []
    assert sum(share([9, 9, 9], 2)) == 2


@given(amounts=st.lists(st.integers(0, 1000), max_size=8), limit=st.integers(1, 4000))
def test_shares_are_fair(amounts: list[int], limit: int) -> None:
    shares = share(amounts, limit)
    assert sum(shares) == min(limit, sum(amounts))
    assert all(part <= amount for part, amount in zip(shares, amounts, strict=True))
    short = [part for part, amount in zip(shares, amounts, strict=True) if part < amount]
    # Who does not get all gets as much as anybody else, but for what cannot be divided.
    assert not short or max(shares) - min(short) <= 1

"""The time of a record, looked for by asking which record reaches a time."""

from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from client.producing.delivery import TopicPartition
from client.reading.estimated_times import Reached, written_about
from client.reading.record_times import PartitionOffset, Unknown

NOW = 1_790_000_000
TARGET = TopicPartition("t", 0)
WEEK = 7 * 86_400_000


class Log:
    """Records with these ages in milliseconds, and how often it was asked."""

    def __init__(self, ages: list[int]) -> None:
        self.times = [NOW * 1000 - age for age in ages]
        self.highest = list(accumulate(self.times, max))
        self.rounds = 0

    def ask(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, Reached]:
        self.rounds += 1
        ((target, time),) = times.items()
        at = bisect_left(self.highest, time)
        there = at < len(self.times)
        return {target: Reached(at, self.times[at]) if there else Reached(-1, -1)}

    def found(self, offset: int) -> int:
        place = PartitionOffset(TARGET, offset)
        written = written_about(self.ask, [place], NOW)[place]
        assert isinstance(written, int)
        return written


@given(st.data())
def test_it_is_found_about(data: st.DataObject) -> None:
    ages = data.draw(st.lists(st.integers(0, WEEK), min_size=1, max_size=200))
    log = Log(ages)
    offset = data.draw(st.integers(0, len(ages) - 1))
    wanted = log.highest[offset]
    age = NOW * 1000 - wanted
    assert abs(log.found(offset) - wanted) <= max(1_000, age // 25)
    assert log.rounds <= 30


def test_a_record_that_is_hit_is_exact() -> None:
    assert Log([86_400_000]).found(0) == (NOW - 86_400) * 1000


def test_what_is_dated_ahead() -> None:
    assert Log([-3_600_000]).found(0) >= NOW * 1000


def test_one_after_the_other_in_a_partition() -> None:
    log = Log([3_600_000, 60_000])
    places = [PartitionOffset(TARGET, 0), PartitionOffset(TARGET, 1)]
    found = written_about(log.ask, places, NOW)
    assert found == dict(zip(places, log.times, strict=True))


def test_records_without_a_time_and_leaders_without_an_answer() -> None:
    place = PartitionOffset(TARGET, 0)

    def nothing_reaches(times: Mapping[TopicPartition, int]) -> dict[TopicPartition, Reached]:
        return dict.fromkeys(times, Reached(-1, -1))

    assert written_about(nothing_reaches, [place], NOW) == {place: Unknown("no timestamp")}
    assert written_about(lambda _: {}, [place], NOW) == {place: Unknown("no answer")}


def test_more_places_in_a_partition_than_are_looked_for() -> None:
    log = Log([1_000_000 - each for each in range(50)])
    found = written_about(log.ask, [PartitionOffset(TARGET, each) for each in range(50)], NOW)
    assert sum(isinstance(each, Unknown) for each in found.values()) == 42

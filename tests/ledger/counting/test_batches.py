"""Batches counted: every event in its window, whoever made the batch, and no byte read in vain."""

from collections.abc import Callable

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from harness.penstock.made_batches import (
    NOON,
    SOURCE,
    WINDOW,
    agents_batch,
    counted_events,
    empty_count,
    event,
    events_by_window,
    foreign_batch,
    header_of,
)
from ledger.counting.batches import Counting, PartitionCount
from ledger.counting.owners import Likeness, likeness
from wire.record_batches.batch import HEADER_SIZE
from wire.record_batches.records import Codec, Record, build_batch

CONTROL, APPEND_TIME = 0x20, 0x08

TIMES = st.lists(st.integers(NOON - 3 * WINDOW, NOON + 3 * WINDOW), min_size=1, max_size=20)


def never() -> bytes:
    raise AssertionError("the batch was opened")


def reads(batch: bytes) -> Callable[[], bytes]:
    return lambda: batch


def add(counting: Counting, into: PartitionCount, batch: bytes, *, gaps: bool = False) -> None:
    counting.count(into, header_of(batch), reads(batch), gaps_are_empty=gaps)


@given(
    st.lists(
        st.tuples(st.booleans(), TIMES, st.sampled_from(Codec), st.integers(-1, 2)), max_size=12
    )
)
def test_every_event_counts_in_its_window(made: list[tuple[bool, list[int], Codec, int]]) -> None:
    counting, count = Counting(WINDOW), empty_count()
    times: list[int] = []
    size = crc_sum = 0
    in_window: dict[int, int] = {}
    listed: list[tuple[int, int, int]] = []
    for by_agent, each, codec, producer in made:
        base = len(times)
        if by_agent:  # no foreign producer has an agent's id
            batch = agents_batch(each, base=base, codec=codec, producer=producer + 10)
        else:
            batch = foreign_batch(each, base=base, codec=codec, producer=producer)
        add(counting, count, batch)
        if by_agent:
            listed.append((base, len(each) - 1, header_of(batch).crc))
        times += each
        size += len(batch)
        crc_sum += header_of(batch).crc
        window = header_of(batch).base_timestamp // WINDOW * WINDOW
        in_window[window] = in_window.get(window, 0) + len(batch)
    assert counted_events(count) == events_by_window(times)
    assert {start: each.bytes for start, each in count.windows.items() if each.bytes} == in_window
    assert sum(each.bytes for each in count.windows.values()) == size
    assert sum(each.crc_sum for each in count.windows.values()) == crc_sum
    assert count.stretches == ([[0, len(times)]] if times else [])
    assert count.batches == listed
    assert count.no_events == 0
    assert count.next_offset == len(times)


def test_an_agents_batch_of_one_window_is_opened_once_for_each_producer_and_epoch() -> None:
    counting, count = Counting(WINDOW), empty_count()
    for base in (0, 2, 4):
        add(counting, count, agents_batch([NOON + 5, NOON + 1], base=base))
    assert counting.opened == 1
    same_window = header_of(agents_batch([NOON, NOON], base=6))
    counting.count(count, same_window, never, gaps_are_empty=False)
    add(counting, count, agents_batch([NOON], base=8, producer=6))
    assert counting.opened == 2
    assert counted_events(count) == {NOON: 9}


def test_an_agents_batch_of_two_windows_is_opened() -> None:
    counting, count = Counting(WINDOW), empty_count()
    add(counting, count, agents_batch([NOON]))
    add(counting, count, agents_batch([NOON + WINDOW, NOON], base=1))
    assert counting.opened == 2
    assert counted_events(count) == {NOON: 2, NOON + WINDOW: 1}


def test_a_foreign_batch_is_opened_always() -> None:
    """Its base is the first record's time: others may be earlier, and base and maximum hide it."""
    counting, count = Counting(WINDOW), empty_count()
    for base in (0, 3):
        add(counting, count, foreign_batch([NOON, NOON - 1, NOON], base=base, producer=4))
    assert counting.opened == 2
    assert counted_events(count) == {NOON - WINDOW: 2, NOON: 4}


@pytest.mark.parametrize("value", [
    None, b"", b"\0\0\0\0\1", event(NOON, 0)[:20], b"\1" + event(NOON, 0)[1:],
    event(NOON, -1), event(NOON, 0, source=""), event(NOON, 0, source="broker-0123456789abc"),
    b"\0\0\0\0\1" + b"\xff" * 20,
])  # fmt: skip
def test_what_is_no_agents_event(value: bytes | None) -> None:
    assert likeness(event(NOON, 0, source=SOURCE), NOON) is Likeness.AGENT
    assert likeness(value, NOON) is Likeness.NONE


def test_an_agents_batch_whose_times_were_refused_is_opened_and_listed() -> None:
    """Its records have the times that the topic accepts, and its events those of their lines."""
    counting, count = Counting(WINDOW), empty_count()
    value = event(NOON - WINDOW, 0, source=SOURCE)
    for base in (0, 1):
        record = Record(offset=base, timestamp=NOON, key=None, value=value)
        batch = build_batch([record], base_offset=base, producer_id=5, producer_epoch=0)
        add(counting, count, batch)
    assert counting.opened == 2
    assert [each[:2] for each in count.batches] == [(0, 0), (1, 0)]


def test_the_brokers_time_is_that_of_all_records() -> None:
    batch = foreign_batch([5, 6, 7])
    header = header_of(batch)._replace(attributes=APPEND_TIME, max_timestamp=NOON)
    count = empty_count()
    Counting(WINDOW).count(count, header, never, gaps_are_empty=False)
    assert counted_events(count) == {NOON: 3}
    assert count.windows[0].bytes == len(batch)


def test_control_batches_and_gaps() -> None:
    counting, count = Counting(WINDOW), empty_count()
    add(counting, count, foreign_batch([NOON]))
    marker = build_batch([Record(1, NOON, b"", b"")], base_offset=1, attributes=CONTROL)
    add(counting, count, marker)
    add(counting, count, foreign_batch([NOON], base=5))
    assert (count.stretches, count.no_events) == ([[0, 2], [5, 6]], 1)
    add(counting, count, foreign_batch([NOON], base=9), gaps=True)
    assert (count.stretches, count.no_events) == ([[0, 2], [5, 10]], 4)
    assert counted_events(count) == {NOON: 3}


def test_what_compaction_left_of_a_batch() -> None:
    messages = [Record(2, NOON, b"k", b"v")]
    batch = build_batch(messages, base_offset=0, last_offset_delta=9)
    empty = build_batch([], base_offset=10, last_offset_delta=4, base_timestamp=NOON)
    counting, count = Counting(WINDOW), empty_count()
    add(counting, count, batch, gaps=True)
    add(counting, count, empty, gaps=True)
    assert (count.stretches, count.no_events) == ([[0, 15]], 14)
    assert counted_events(count) == {NOON: 1}
    assert count.windows[NOON].bytes == len(batch)


def test_a_spoilt_batch_is_named_and_not_claimed() -> None:
    batch = bytearray(foreign_batch([NOON, NOON], base=1))
    batch[-1] ^= 1
    counting, count = Counting(WINDOW), empty_count()
    add(counting, count, foreign_batch([NOON]))
    add(counting, count, bytes(batch))
    add(counting, count, foreign_batch([NOON], base=3))
    assert count.stretches == [[0, 1], [3, 4]]
    assert [(each.first, each.count) for each in count.spoilt] == [(1, 2)]
    assert "CRC" in count.spoilt[0].reason


def test_records_that_cannot_be_read_count_by_their_header() -> None:
    """A broker takes them: their bytes are what was sent."""
    garbage = bytearray(foreign_batch([NOON, NOON + WINDOW]))
    garbage[HEADER_SIZE:] = b"\xff" * (len(garbage) - HEADER_SIZE)
    header = header_of(bytes(garbage))
    header = header._replace(crc=crc32c(garbage[21:]))
    count = empty_count()
    Counting(WINDOW).count(count, header, reads(bytes(garbage)), gaps_are_empty=False)
    assert counted_events(count) == {NOON: 2}
    assert not count.spoilt


@pytest.mark.parametrize("time", [-1, -(2**63), 2**63 - 1])
def test_any_time_has_a_window(time: int) -> None:
    count = empty_count(seen=NOON)
    add(Counting(WINDOW), count, foreign_batch([time]))
    (start,) = counted_events(count)
    assert start % WINDOW == 0
    assert -(2**63) <= start < 2**63
    assert sum(count.delays) == 1


def test_delays_are_those_of_the_events() -> None:
    count = empty_count(seen=NOON + 1000)
    add(Counting(WINDOW), count, foreign_batch([NOON + 1000, NOON + 999, NOON + 2000, NOON]))
    assert count.delays == [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    unknown = empty_count()
    add(Counting(WINDOW), unknown, foreign_batch([NOON]))
    assert unknown.delays == []

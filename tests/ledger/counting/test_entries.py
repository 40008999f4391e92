"""What was counted, as entries: complete, and none of them too large."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.penstock.made_batches import NOON, WINDOW
from ledger.counting.batches import PartitionCount, Spoilt, Sums
from ledger.counting.entries import (
    MOST_SCRUBBED,
    MOST_WINDOWS,
    Speaker,
    entries_of,
    entry_of,
    halves,
    scrubbed_of,
)
from schemas.envelope import Encoder
from schemas.event_schemas import LEDGER, built_in

SPEAKER = Speaker(
    source="broker-1", host="h", app="penstock-broker", cluster="dc1", window_millis=WINDOW
)
LARGEST = 256 * 1024
HOUR = 3_600_000


def counted(partition: int, windows: int, stretches: int = 1, spoilt: int = 0) -> PartitionCount:
    count = PartitionCount("t" * 200, "id", partition, 0, leader_epoch=1, delays=[2**40] * 48)
    for at in range(windows):
        count.windows[NOON + at * WINDOW] = Sums(2**40, 2**40, 2**50)
    count.stretches = [[2**40 + 10 * at, 2**40 + 10 * at + 5] for at in range(stretches)]
    count.spoilt = [Spoilt(2**40, 5, "the CRC does not match") for _ in range(spoilt)]
    return count


def made(counts: list[PartitionCount]) -> list[dict[str, Any]]:
    entries = entries_of(counts, SPEAKER, seq=40, now_millis=NOON)
    encoder = Encoder(built_in(LEDGER), 1)
    assert all(len(encoder.encode(each)) <= LARGEST for each in entries)
    assert [each["header"]["seq"] for each in entries] == list(range(40, 40 + len(entries)))
    return entries


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(1, 4_100), st.integers(1, 300), st.integers(0, 3)), max_size=6)
)
def test_nothing_is_lost_and_no_entry_is_too_large(each: list[tuple[int, int, int]]) -> None:
    counts = [counted(at, *sizes) for at, sizes in enumerate(each)]
    entries = made(counts)
    passages = [passage for entry in entries for passage in entry["passages"]]
    assert sorted(each["partition"] for each in passages) == list(range(len(counts)))
    for passage in passages:
        count = counts[passage["partition"]]
        assert len(passage["windows"]) == len(count.windows)
        assert len(passage["offsets"]) == len(count.stretches)
    assert sum(len(entry["damaged"]) for entry in entries) == sum(
        len(count.spoilt) for count in counts
    )


def test_a_thousand_idle_partitions_are_one_entry_each_thousand() -> None:
    counts = [PartitionCount("t", "id", at, 0, stretches=[[0, 1]]) for at in range(1_500)]
    entries = made(counts)
    assert len(entries) >= 2
    assert sum(len(entry["passages"]) for entry in entries) == 1_500


def test_too_many_windows_become_hours() -> None:
    """One batch may have events all over time."""
    many = counted(0, 5 * MOST_WINDOWS)
    (entry,) = made([many])
    assert entry["window_millis"] == HOUR
    (passage,) = entry["passages"]
    assert sum(each["events"] for each in passage["windows"]) == 2**40 * 5 * MOST_WINDOWS
    assert all(each["start"] % HOUR == 0 for each in passage["windows"])


@pytest.mark.not_quick("very many entries")
@pytest.mark.parametrize("hours", [8_001, 30_000])
def test_too_many_hours_are_told_in_parts(hours: int) -> None:
    """None is about anything longer than an hour: nobody could say what of it was when."""
    many = PartitionCount(
        "t", "id", 0, 0, no_events=3, delays=[7], stretches=[[5, 9], [20, 50_000]]
    )
    for at in range(hours):
        many.windows[at * 5 * HOUR + WINDOW] = Sums(1, 2, 3)
    entries = made([many])
    assert {each["window_millis"] for each in entries} == {HOUR}
    passages = [passage for entry in entries for passage in entry["passages"]]
    windows = [window for passage in passages for window in passage["windows"]]
    assert windows == [
        {"start": at * 5 * HOUR, "events": 1, "bytes": 2, "crc_sum": 3} for at in range(hours)
    ]
    offsets = [
        (each["first"], each["first"] + each["count"])
        for passage in passages
        for each in passage["offsets"]
    ]
    assert (offsets[0], offsets[1][0], offsets[-1][1]) == ((5, 9), 20, 50_000)
    assert all(one[1] == two[0] for one, two in pairwise(offsets[1:]))
    assert all(len(passage["offsets"]) == 1 for passage in passages[1:])
    assert [each["no_events"] for each in passages] == [3] + [0] * (len(passages) - 1)
    assert sum(sum(each["delays"]) for each in passages) == 7


def test_what_has_nothing_to_say_says_nothing() -> None:
    assert made([PartitionCount("t", "id", 0, 7)]) == []


def test_as_many_logs_as_an_entry_may_name_fit_into_it() -> None:
    logs = [scrubbed_of("t" * 249, "i" * 22, at, 2**45, -1) for at in range(MOST_SCRUBBED)]
    entry = entry_of(SPEAKER, seq=40, now_millis=NOON, scrubbed=logs)
    assert len(Encoder(built_in(LEDGER), 1).encode(entry)) <= LARGEST
    assert entry["scrubbed"][0]["whole"] == 0, "never"
    first, second = halves(entry)
    assert first["scrubbed"] + second["scrubbed"] == logs

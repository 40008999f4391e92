"""Indexes against sorted lists, through writes, truncations and restarts."""

import os
from bisect import bisect_left, bisect_right
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.errors import BadIndex
from broker.storage.segments.index import OffsetIndex, OffsetPosition, TimeEntry, TimeIndex

BASE = 10_000_000_000
GAPS = st.lists(st.integers(1, 1000), max_size=60)


@given(GAPS, st.integers(0, 60), st.data())
def test_an_offset_index_finds_the_last_at_or_below(
    gaps: list[int], stored: int, data: st.DataObject
) -> None:
    entries = [OffsetPosition(BASE + at, at * 7) for at in accumulate(gaps)]
    with TemporaryDirectory() as directory:
        index = OffsetIndex(Path(directory) / "x.index", BASE)
        for number, entry in enumerate(entries):
            index.append(*entry)
            if number == stored:
                index.write_through()
        for _ in range(20):
            wanted = data.draw(st.integers(-5, 60_000))
            offsets = [entry.last_offset for entry in entries]
            at = bisect_right(offsets, BASE + wanted)
            assert index.at_or_below_offset(BASE + wanted) == (entries[at - 1] if at else None)
            positions = [entry.position for entry in entries]
            at = bisect_right(positions, wanted)
            assert index.at_or_below_position(wanted) == (entries[at - 1] if at else None)
        cut = data.draw(st.integers(0, 60_000))
        index.truncate(cut)
        left = [entry for entry in entries if entry.position < cut]
        assert [index.entry(number) for number in range(len(index))] == left
        index.write_through()
        again = OffsetIndex(index.path, BASE)
        assert again.last() == (left[-1] if left else None)
        assert len(again) == len(left)


@given(GAPS, st.integers(0, 60), st.data())
def test_a_time_index_finds_the_first_that_reaches(
    gaps: list[int], stored: int, data: st.DataObject
) -> None:
    entries = [TimeEntry(at, BASE + at * 3) for at in accumulate(gaps)]
    with TemporaryDirectory() as directory:
        index = TimeIndex(Path(directory) / "x.timeindex", BASE)
        for number, entry in enumerate(entries):
            index.append(*entry)
            index.append(entry.timestamp - 1, entry.last_offset + 1)  # no higher: not noted
            if number == stored:
                index.write_through()
        for _ in range(20):
            wanted = data.draw(st.integers(-5, 60_000))
            at = bisect_left([entry.timestamp for entry in entries], wanted)
            assert index.reaching(wanted) == (entries[at] if at < len(entries) else None)
            at = bisect_right([entry.last_offset for entry in entries], BASE + wanted)
            assert index.noted_by(BASE + wanted) == (entries[at - 1] if at else None)
        cut = data.draw(st.integers(0, 60_000))
        index.truncate(BASE + cut)
        left = [entry for entry in entries if entry.last_offset < BASE + cut]
        assert [index.entry(number) for number in range(len(index))] == left
        index.append(10**9, BASE + 10**9)
        assert index.last() == (10**9, BASE + 10**9)


def test_a_large_index_is_searched_without_reading_it(tmp_path: Path) -> None:
    index = OffsetIndex(tmp_path / "x.index", 0)
    for number in range(100_000):
        index.append(number * 10 + 9, number * 4096)
        if number == 50_000:
            index.write_through()
    for number in range(0, 99_999, 997):
        assert index.at_or_below_offset(number * 10 + 9) == (number * 10 + 9, number * 4096)
        assert index.at_or_below_offset(number * 10 + 18) == (number * 10 + 9, number * 4096)
        assert index.at_or_below_position(number * 4096 + 1) == (number * 10 + 9, number * 4096)


def test_the_format_is_kafkas(tmp_path: Path) -> None:
    index = OffsetIndex(tmp_path / "x.index", 100)
    index.append(105, 4242)
    index.write_through()
    assert index.path.read_bytes() == bytes.fromhex("00000005 00001092")
    times = TimeIndex(tmp_path / "x.timeindex", 100)
    times.append(1_790_000_000_000, 107)
    times.write_through()
    assert times.path.read_bytes() == (1_790_000_000_000).to_bytes(8) + bytes.fromhex("00000007")


def test_an_index_that_is_cut_short_is_bad(tmp_path: Path) -> None:
    path = tmp_path / "x.index"
    index = OffsetIndex(path, 0)
    for number in range(10):
        index.append(number, number)
    index.write_through()
    os.truncate(path, 8)
    with pytest.raises(BadIndex, match="shorter"):
        index.at_or_below_offset(9)
    os.truncate(path, 7)
    with pytest.raises(BadIndex, match="7 bytes"):
        OffsetIndex(path, 0)

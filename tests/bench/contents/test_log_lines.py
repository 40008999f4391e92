"""The lines that shippers are measured with."""

import itertools

import pytest

from bench.contents.log_lines import (
    BLOCK_LINES,
    LINE_BYTES,
    around_the_end_of_a_window,
    at_times,
    block,
    json_line,
    plain_line,
)


@pytest.mark.not_quick("very many lines")
def test_every_line_has_the_same_length() -> None:
    for line in (plain_line, json_line):
        lines = block(line).splitlines(keepends=True)
        assert len(lines) == BLOCK_LINES
        assert {len(each) for each in lines} == {LINE_BYTES}


def test_times_lie_on_both_sides_of_the_end_of_a_window() -> None:
    times = around_the_end_of_a_window(1_000)
    minutes = [time // 60_000 for time in times]
    assert max(minutes) - min(minutes) == 1
    assert max(times) - min(times) <= 60_000
    changes = sum(one != other for one, other in itertools.pairwise(minutes))
    assert changes > 400
    assert len(at_times(plain_line, times)) == 1_000 * LINE_BYTES

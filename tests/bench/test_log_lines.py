"""The lines that shippers are measured with."""

import itertools
import json
from pathlib import Path

import pytest

from bench.log_files import Growth, grow, growth, put, write_backlog
from bench.log_lines import (
    BLOCK_LINES,
    LINE_BYTES,
    REQUEST_SCHEMA,
    around_the_end_of_a_window,
    at_times,
    block,
    json_line,
    pieces,
    plain_line,
)
from schemas.definitions.types import Record
from schemas.parsing import parse


@pytest.mark.not_quick("very many lines")
def test_every_line_has_the_same_length() -> None:
    for line in (plain_line, json_line):
        lines = block(line).splitlines(keepends=True)
        assert len(lines) == BLOCK_LINES
        assert {len(each) for each in lines} == {LINE_BYTES}


def test_a_json_line_has_a_time_and_the_fields_of_its_schema() -> None:
    first, *_ = block(json_line).splitlines()
    schema = parse(json.dumps(REQUEST_SCHEMA)).type
    assert isinstance(schema, Record)
    assert ["ts", *(field.name for field in schema.fields[1:])] == list(json.loads(first))
    assert json.loads(first)["ts"].endswith("Z")


def test_times_lie_on_both_sides_of_the_end_of_a_window() -> None:
    times = around_the_end_of_a_window(1_000)
    minutes = [time // 60_000 for time in times]
    assert max(minutes) - min(minutes) == 1
    assert max(times) - min(times) <= 60_000
    changes = sum(one != other for one, other in itertools.pairwise(minutes))
    assert changes > 400
    assert len(at_times(plain_line, times)) == 1_000 * LINE_BYTES


def test_content_is_given_again_until_there_is_enough() -> None:
    content = bytes(3 * LINE_BYTES)
    assert [len(each) // LINE_BYTES for each in pieces(content, 7)] == [3, 3, 1]


def test_files_of_a_backlog_differ_in_how_they_begin(tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    watched.mkdir()
    backlog = tmp_path / "backlog"
    assert write_backlog(backlog, block(plain_line), lines=1_003, files=10) == 1_000
    put(backlog, watched)
    contents = [file.read_bytes() for file in watched.iterdir()]
    assert {len(content) for content in contents} == {100 * LINE_BYTES}
    assert len({content[:LINE_BYTES] for content in contents}) == 10


def test_files_grow_in_turns_by_whole_lines(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    assert growth(paths, 100_000) == Growth(paths, 100, 0.001)
    assert growth(paths, 10) == Growth(paths, 1, 0.1)
    lines = grow(Growth(paths, 2, 0.001), block(plain_line), 0.03)
    assert lines == 60
    assert [path.stat().st_size for path in paths] == [20 * LINE_BYTES] * 3

"""Hot paths take as many instructions as the repository says; and how that is compared and said."""

import json
from pathlib import Path

import pytest

from bench.counted.accepted_counts import (
    FILE,
    accept,
    accepted,
    circumstances,
    grown,
    why_not_comparable,
)
from bench.counted.callgrind import counted, why_no_counts
from bench.counted.commits import ROOT
from bench.counted.paths import PATHS, CountedPath


@pytest.mark.slow
@pytest.mark.timeout(1_800)  # valgrind needs a minute of a processor, and others want it too
@pytest.mark.not_quick("counts instructions under valgrind")
def test_no_path_takes_more_instructions_than_is_accepted() -> None:
    if (why := why_no_counts()) is not None:
        pytest.skip(why)
    # With another Python or other libraries, that each path can be counted is all that is safe.
    found = counted([*PATHS.values()], ROOT)
    assert found.why_not == {}
    assert found.counts.keys() == PATHS.keys()
    assert all(count > 0 for count in found.counts.values())
    if why_not_comparable() is None:
        slower = grown(accepted(), found.counts)
        assert not slower, "\n".join(slower)


def test_every_path_has_a_count_that_was_accepted() -> None:
    for each in json.loads(FILE.read_text()):
        assert list(each["counts"]) == list(PATHS)


def test_a_path_that_takes_more_is_named_with_how_much_and_what_to_do() -> None:
    before = {"produce-1": 1_000, "acl": 1_000, "fetch": 1_000}
    (said,) = grown(before, {"produce-1": 1_100, "acl": 1_049, "fetch": 500})
    assert said == (
        "produce-1 takes 1,100 instructions for each request, 10.0% more than the accepted "
        '1,000; if that is intended: make bench ARGS="--accept-counts"'
    )


def test_counts_of_another_python_are_not_comparable(tmp_path: Path) -> None:
    file = tmp_path / "counts.json"
    accept({"acl": 7}, file)
    assert accepted(file) == {"acl": 7}
    assert why_not_comparable(file) is None
    other = {"of": {**circumstances(), "python": "3.9.1"}, "counts": {"acl": 8}}
    file.write_text(json.dumps([other]))
    why = why_not_comparable(file)
    assert why is not None
    assert "not 3.9.1" in why
    assert accepted(file) == {}
    accept({"acl": 9}, file)
    assert accepted(file) == {"acl": 9}
    assert other in json.loads(file.read_text())


@pytest.mark.not_quick("starts a process")
def test_a_path_that_cannot_be_counted_says_why() -> None:
    if (why := why_no_counts()) is not None:
        pytest.skip(why)
    path = CountedPath("no-such-path", "request", "broker_paths", "produce_1", 1)
    found = counted([path], ROOT)
    assert found.counts == {}
    assert "no-such-path" in found.why_not["no-such-path"]

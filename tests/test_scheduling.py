"""Which process is given which file of tests."""

from collections.abc import Sequence

import pytest

from tests.scheduling import Wanted, best, wanted

S, H, K = "spark", "hdfs", "Apache Kafka"
WANTS = {"plain": Wanted(), "s": Wanted({S}), "h": Wanted({H}), "sh": Wanted({S, H})}


@pytest.mark.parametrize(
    ("files", "here", "elsewhere", "chosen"),
    [
        (["plain", "s"], [], [], "plain"),  # in their order
        (["s", "plain"], [], [], "s"),
        (["plain", "s"], [S], [], "s"),  # it is at home here
        (["s", "plain"], [], [S], "plain"),  # and not here
        (["s", "sh", "h"], [], [S], "h"),
        (["sh", "plain"], [S], [H], "plain"),
        (["sh", "s"], [S], [], "s"),
        (["sh", "plain"], [S], [], "sh"),  # nobody has an HDFS yet
        (["s", "sh"], [], [S], "s"),  # there is nothing else left to do
    ],
)
def test_a_file_goes_where_it_is_at_home(
    files: Sequence[str], here: Sequence[str], elsewhere: Sequence[str], chosen: str
) -> None:
    assert best(files, Wanted(here), Wanted(elsewhere), WANTS.__getitem__) == chosen


@pytest.mark.parametrize(
    ("file", "wants"),
    [
        ("tests/test_hdfs.py", {S, H}),
        ("tests/loader/store/test_stores.py", {S, H}),
        ("tests/loader/source/test_batches.py", {S, K}),
        ("tests/wire/test_frames.py", set()),
    ],
)
def test_what_a_file_wants_is_read_off_it(file: str, wants: set[str]) -> None:
    assert wanted(file) == wants

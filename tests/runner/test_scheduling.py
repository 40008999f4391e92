"""Which process is given which file of tests."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.runner.scheduling import ROOT, Ticket, Waiting, best, wanted

WANTS = {"plain": "", "spark": "S", "more spark": "S", "kafka": "K"}


@pytest.mark.parametrize(
    ("files", "here", "elsewhere", "chosen"),
    [
        (["plain", "spark"], "", "", "plain"),  # in their order
        (["spark", "plain"], "", "", "spark"),
        (["plain", "kafka", "more spark"], "S", "", "more spark"),  # it is at home here
        (["spark", "plain"], "", "S", "plain"),  # and there not
        (["spark", "kafka", "plain"], "", "S", "kafka"),
        (["spark", "plain"], "K", "S", "plain"),
        (["spark", "kafka"], "S", "SK", "spark"),
        (["more spark", "spark"], "", "S", "more spark"),  # there is nothing else left to do
    ],
)
def test_a_file_goes_where_it_is_at_home(
    files: Sequence[str], here: str, elsewhere: str, chosen: str
) -> None:
    waiting = [Ticket(Path(file), number, number + 1) for number, file in enumerate(files)]
    found = best(waiting, set(here), set(elsewhere), lambda file: WANTS[str(file)])
    assert found.file == Path(chosen)


def test_each_is_given_away_once() -> None:
    spark, plain = Path("tests/harness/test_hdfs.py"), Path("tests/wire/test_frames.py")
    files = [spark, plain, spark]
    waiting = Waiting(
        [Ticket(ROOT / file, number, number + 1) for number, file in enumerate(files)]
    )
    given = [waiting.take(process) for process in ("one", "other", "one", "other")]
    assert [each and each.first for each in given] == [0, 1, 2, None]


@pytest.mark.parametrize(
    ("file", "wants"),
    [
        ("tests/harness/test_hdfs.py", "Spark"),
        ("tests/loader/store/test_stores.py", "Spark"),
        ("tests/loader/commit/test_crashes.py", "Spark"),
        ("tests/loader/spark/test_bare_executors.py", "Spark"),
        ("tests/loader/test_from_kafka.py", "Spark"),  # and Apache Kafka besides
        ("tests/audit/test_counting_from_outside.py", "Apache Kafka"),
        ("tests/wire/test_frames.py", ""),
    ],
)
def test_what_a_file_wants_is_read_off_it(file: str, wants: str) -> None:
    assert wanted(Path(file)) == wants

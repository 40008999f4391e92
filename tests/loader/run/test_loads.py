"""When it is said that loads fail."""

import msgspec
import pytest

from loader.ledger.entries import MOST_BYTES
from loader.ledger.observations import divided
from loader.run.telling_loads import (
    AGAIN_MILLIS,
    LONGEST,
    Failing,
    failing,
    from_bytes,
    recovered,
    state_path,
    statements,
    weight,
)

NOW = 1_795_132_800_000


def test_the_first_failure_is_said_with_when_its_load_began() -> None:
    known, is_news = failing(None, "why", NOW - 5, NOW)
    assert is_news
    assert known == Failing(since=NOW - 5, told=NOW, reason="why")
    assert from_bytes(msgspec.json.encode(known)) == known
    (said,) = statements(["t"], known, "do it")
    assert said == {
        "topic": "t",
        "failed": True,
        "since": NOW - 5,
        "reason": "why",
        "cure": "do it",
    }


@pytest.mark.parametrize(
    ("reason", "later", "is_news"),
    [
        ("why", 60_000, False),
        ("why", AGAIN_MILLIS - 1, False),
        ("why", AGAIN_MILLIS, True),
        ("another", 1, True),
        ("why", -60_000, True),  # a clock that was set back holds nothing up
    ],
)
def test_it_is_said_again(reason: str, later: int, is_news: bool) -> None:
    before = Failing(since=NOW - 9, told=NOW, reason="why")
    known, news = failing(before, reason, NOW + later, NOW + later)
    assert (known.since, news) == (NOW - 9, is_news)
    assert known.told == (NOW + later if is_news else NOW)


def test_a_long_reason_is_the_same_each_time() -> None:
    known, _ = failing(None, "x" * 2 * LONGEST, NOW, NOW)
    assert failing(known, "x" * 2 * LONGEST, NOW, NOW) == (known, False)


def test_what_is_no_state_is_a_beginning() -> None:
    assert from_bytes(b"{}") is None
    assert from_bytes(b'{"version": 2, "since": 1, "told": 1, "reason": ""}') is None
    assert state_path("clicks") == "_penstock/~loads/clicks.json"


def test_all_topics_of_a_table_are_named() -> None:
    assert recovered(["a", "b"], NOW) == [
        {"topic": "a", "failed": False, "since": NOW},
        {"topic": "b", "failed": False, "since": NOW},
    ]


def test_reasons_of_many_topics_are_several_entries() -> None:
    known, _ = failing(None, "é" * LONGEST, NOW, NOW)
    said = statements([f"t{number}" for number in range(500)], known, "do it")
    parts = list(divided(said, weight))
    assert [each for part in parts for each in part] == said
    assert len(parts) == 8
    assert all(len(msgspec.json.encode(part)) < 1.1 * MOST_BYTES for part in parts)
    assert list(divided([], weight)) == []

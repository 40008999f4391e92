"""Entries of the ledger: every statement in one of them, none too large, all of the schema."""

from dataclasses import replace

import pytest

from agent.journal.state import Finished, Shipped, Statement, WindowPassed
from agent.ledger.entries import MOST_RUNS, Draft, drafts, entry
from agent.parcels import Eventless
from agent.runs import Excepted, Fate, Run, SourceId
from schemas.envelope import Decoder, Encoder
from schemas.event_schemas import LEDGER, built_in

HEADER = {"time": 1, "host": "h", "app": "a", "source": "agent", "seq": 7, "position": 0}


def shipped_of(number: int, runs: int, base_offset: int = 0) -> Shipped:
    mine = tuple(Run(SourceId(f"s{at}"), 0, 1, 0, 10, 1) for at in range(runs))
    return Shipped(number, "t", "id", 0, 1, base_offset, runs, (), mine, ())


def drafts_of(statements: list[Statement], most_bytes: int = 1_000_000) -> list[Draft]:
    return list(
        drafts(
            statements,
            lambda source: "/path",
            lambda topic: f"id of {topic}",
            window_millis=60_000,
            most_bytes=most_bytes,
        )
    )


def texts(statements: list[Statement]) -> list[dict[str, object]]:
    """As whoever reads the topic has them."""
    encoder = Encoder(built_in(LEDGER), 1)
    decoder = Decoder(lambda _: built_in(LEDGER))
    return [
        decoder.decode(encoder.encode(entry(each, HEADER, cluster="c")))
        for each in drafts_of(statements)
    ]


def test_one_of_each() -> None:
    filtered = Run(SourceId("s"), 4, 0, 50, 90, 0, (Excepted(Fate.FILTERED, 3, 40, "debug"),))
    statements: list[Statement] = [
        shipped_of(1, 2),
        Eventless(2, "t", filtered),
        Finished(3, SourceId("s"), "t", "/log.1", 4, 90),
        shipped_of(4, 1, base_offset=-1),
    ]
    (draft,) = drafts_of(statements)
    assert draft.covers == (1, 2, 3, 4)
    (text,) = texts(statements)
    assert text["header"] == HEADER
    assert (text["version"], text["tier"], text["cluster"]) == (1, "agent", "c")
    passages = text["passages"]
    assert isinstance(passages, list)
    assert [each["partition"] for each in passages] == [0, -1, -1]
    assert [each["topic_id"] for each in passages] == ["id", "id", "id of t"]
    assert passages[2]["runs"][0]["excepted"] == [
        {"fate": "filtered", "count": 3, "bytes": 40, "reason": "debug"}
    ]
    assert text["finished"] == [
        {"topic": "t", "source": "s", "path": "/log.1", "events": 4, "size": 90}
    ]


def test_many_runs_are_spread_over_entries() -> None:
    statements: list[Statement] = [shipped_of(at, 700, 700 * at) for at in range(6)]
    assert [each.covers for each in drafts_of(statements)] == [(0, 1), (2, 3), (4, 5)]


@pytest.mark.not_quick("very many entries")
def test_entries_are_no_larger_than_they_may_be() -> None:
    """Events of a backlog may lie in thousands of windows."""
    windows = tuple(WindowPassed(60_000 * at, 1, 0, 0) for at in range(5_000))
    statements: list[Statement] = [
        replace(shipped_of(at, 1, at), windows=windows) for at in range(20)
    ]
    found = drafts_of(statements, 256 * 1024)
    assert [number for each in found for number in each.covers] == list(range(20))
    encoder = Encoder(built_in(LEDGER), 1)
    sizes = [len(encoder.encode(entry(each, HEADER, cluster="c"))) for each in found]
    assert max(sizes) < 256 * 1024
    assert len(drafts_of(statements, 1)) == 20


def test_windows_of_another_length_are_said_as_such() -> None:
    before = replace(shipped_of(1, 1), window_millis=1_000)
    found = drafts_of([shipped_of(2, 1), before, shipped_of(3, 1)])
    assert [(each.covers, each.window_millis) for each in found] == [
        ((2, 3), 60_000),
        ((1,), 1_000),
    ]


def test_a_batch_with_too_many_runs() -> None:
    runs = 2 * MOST_RUNS + 1
    for offset in (5, -1):
        found = drafts_of([shipped_of(1, runs, offset)])
        covers = [each.covers for each in found]
        assert covers == [()] * (len(found) - 1) + [(1,)]
        passages = [each.lists["passages"][0] for each in found]
        assert sum(len(each["runs"]) for each in passages) == runs
        assert all(each["partition"] == -1 for each in passages if each["runs"])
        offsets = [each["offsets"] for each in passages if each["offsets"]]
        assert offsets == ([[{"first": 5, "count": runs}]] if offset > 0 else [])

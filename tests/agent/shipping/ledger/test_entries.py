"""Entries of the ledger: every statement in one of them, none too large; passages add up."""

from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.accounting.parcels import Eventless
from agent.accounting.runs import Excepted, Fate, Run, SourceId
from agent.journal.state import Finished, Shipped, Statement, WindowPassed
from agent.shipping.ledger.entries import (
    MOST_RUNS,
    Draft,
    bare_passage,
    drafts,
    entry,
    merged,
    passages_of,
    run_json,
)
from schemas.envelope import Decoder, Encoder
from schemas.event_schemas import LEDGER, built_in

HEADER = {"time": 1, "host": "h", "app": "a", "source": "agent", "seq": 7, "position": 0}


def shipped_of(number: int, runs: int, base_offset: int = 0) -> Shipped:
    mine = tuple(Run(SourceId(f"s{at}"), 0, 1, 0, 10, 1) for at in range(runs))
    return Shipped(number, "t", "id", 0, 1, base_offset, runs, (), mine, ())


def drafts_of(statements: Sequence[Statement], most_bytes: int = 1_000_000) -> list[Draft]:
    return list(
        drafts(
            statements,
            lambda source: "/path",
            lambda topic: f"id of {topic}",
            window_millis=60_000,
            most_bytes=most_bytes,
        )
    )


def texts(statements: Sequence[Statement]) -> list[dict[str, Any]]:
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


A, B = SourceId("a"), SourceId("b")


def no_path(source: str) -> str:
    return ""


def shipped_with(number: int, base_offset: int, *runs: Run, **changes: Any) -> Shipped:
    events = sum(run.events for run in runs)
    fields: dict[str, Any] = {
        "number": number,
        "topic": "t",
        "topic_id": "id",
        "partition": 0,
        "leader_epoch": 3,
        "base_offset": base_offset,
        "offsets": events,
        "windows": (WindowPassed(0, events, 100 + number, 2**32 - 1),),
        "runs": runs,
        "delays": (0, events),
    }
    return Shipped(**fields | changes)


def lines_of(source: SourceId, seq: int, events: int, *excepted: Excepted) -> Run:
    """Ten bytes a line."""
    extra = sum(each.bytes for each in excepted)
    return Run(source, seq, events, seq * 10, (seq + events) * 10 + extra, events, excepted)


def test_what_touches_is_one() -> None:
    statements = [
        shipped_with(1, 10, lines_of(A, 0, 5)),
        shipped_with(2, 15, lines_of(A, 5, 5), lines_of(B, 0, 2), delays=(1, 3, 3)),
        shipped_with(3, 30, lines_of(B, 2, 2)),
    ]
    (passage,) = passages_of(statements, no_path)
    assert passage["offsets"] == [{"first": 10, "count": 12}, {"first": 30, "count": 2}]
    assert passage["windows"] == [
        {"start": 0, "events": 14, "bytes": 306, "crc_sum": 3 * (2**32 - 1)}
    ]
    assert [(run["source"], run["seq"], run["events"]) for run in passage["runs"]] == [
        ("a", 0, 10),
        ("b", 0, 4),
    ]
    assert passage["delays"] == [1, 10, 3]
    assert passage["leader_epoch"] == 3


def test_delays_are_those_of_all_events_or_of_none() -> None:
    statements = [
        shipped_with(1, 0, lines_of(A, 0, 5)),
        shipped_with(2, 5, lines_of(A, 5, 5), delays=()),
    ]
    (passage,) = passages_of(statements, no_path)
    assert passage["delays"] == []


def test_in_the_order_of_offsets() -> None:
    statements = [shipped_with(2, 5, lines_of(A, 5, 5)), shipped_with(1, 0, lines_of(A, 0, 5))]
    (passage,) = passages_of(statements, no_path)
    assert passage["offsets"] == [{"first": 0, "count": 10}]
    assert [run["events"] for run in passage["runs"]] == [10]


def test_partitions_topics_and_leaders_stay_apart() -> None:
    statements = [
        shipped_with(1, 0, lines_of(A, 0, 1)),
        shipped_with(2, 1, lines_of(A, 1, 1), leader_epoch=4),
        shipped_with(3, 0, lines_of(A, 2, 1), topic_id="another"),
        shipped_with(4, 0, lines_of(A, 3, 1), partition=1),
        shipped_with(5, 0, lines_of(A, 4, 1), topic="t.dead"),
    ]
    assert len(passages_of(statements, no_path)) == 5


def digest_of(*batches: bytes) -> bytes:
    return sha256(b"".join(sha256(batch).digest() for batch in batches)).digest()[:16]


def with_digests(*batches: tuple[int, bytes], **changes: Any) -> list[Shipped]:
    """Of one event each, at these offsets, numbered the other way round."""
    return [
        shipped_with(99 - at, at, lines_of(A, at, 1), digest=sha256(batch).digest(), **changes)
        for at, batch in batches
    ]


def test_a_passage_has_one_digest_in_the_order_of_offsets() -> None:
    """Acknowledged in another order, and with batches of others between them: a passage has only
    its own."""
    statements = with_digests((7, b"c"), (2, b"a"), (3, b"b"))
    (passage,) = passages_of(statements, no_path)
    assert passage["offsets"] == [{"first": 2, "count": 2}, {"first": 7, "count": 1}]
    assert passage["digest"] == digest_of(b"a", b"b", b"c")
    (text,) = texts([*statements])
    assert text["passages"][0]["digest"] == passage["digest"]


def test_each_passage_has_the_digest_of_its_own_batches() -> None:
    statements = [
        *with_digests((2, b"a"), (4, b"c")),
        *with_digests((3, b"b")),
        *with_digests((2, b"d"), partition=1),
        *with_digests((9, b"e"), leader_epoch=4),
    ]
    digests = [passage["digest"] for passage in passages_of(statements, no_path)]
    assert digests == [digest_of(b"a", b"b", b"c"), digest_of(b"d"), digest_of(b"e")]


def test_a_batch_without_a_digest_leaves_its_passage_without() -> None:
    """One that was acknowledged by a release that computed none, or with `proof: off`."""
    unknown = replace(shipped_with(3, 3, lines_of(A, 3, 1)), digest=b"")
    known = with_digests((2, b"a"), (4, b"c"))
    (passage,) = passages_of([*known, unknown], no_path)
    assert passage["digest"] == b""
    first, second = passages_of([*known, replace(unknown, partition=1)], no_path)
    assert (first["digest"], second["digest"]) == (digest_of(b"a", b"c"), b"")


def test_what_has_no_offsets_has_no_digest() -> None:
    shipped = replace(with_digests((5, b"a"))[0], base_offset=-1)
    many = replace(shipped_of(1, 2 * MOST_RUNS, 5), digest=sha256(b"b").digest())
    assert [found["passages"][0]["digest"] for found in texts([shipped])] == [b""]
    *without, last = texts([many])
    assert [found["passages"][0]["digest"] for found in without] == [b"", b""]
    assert last["passages"][0]["digest"] == digest_of(b"b")


def test_windows_are_sums_in_ascending_order() -> None:
    early, late = WindowPassed(0, 1, 10, 1), WindowPassed(60_000, 2, 0, 0)
    statements = [
        shipped_with(1, 0, lines_of(A, 0, 3), windows=(early, late)),
        shipped_with(2, 3, lines_of(A, 3, 2), windows=(WindowPassed(60_000, 2, 20, 5),)),
    ]
    (passage,) = passages_of(statements, no_path)
    assert passage["windows"] == [
        {"start": 0, "events": 1, "bytes": 10, "crc_sum": 1},
        {"start": 60_000, "events": 4, "bytes": 20, "crc_sum": 5},
    ]


def test_what_was_excepted_is_summed_by_reason() -> None:
    filtered, other = Excepted(Fate.FILTERED, 1, 5, "debug"), Excepted(Fate.FILTERED, 2, 7, "x")
    first = Run(A, 0, 1, 0, 15, 1, (filtered,))
    second = Run(A, 1, 1, 15, 40, 1, (filtered, other))
    (run,) = merged([first, second])
    assert run == Run(A, 0, 2, 0, 40, 2, (Excepted(Fate.FILTERED, 2, 10, "debug"), other))
    unknown = Run(A, 2, 1, 40, 50, 1, (Excepted(Fate.FILTERED, -1, -1, "x"),))
    (run,) = merged([second, unknown])
    assert run.excepted[-1] == Excepted(Fate.FILTERED, -1, -1, "x")


def test_what_was_lost_keeps_its_name() -> None:
    lost = Run(A, 5, 0, 50, 90, 0, (Excepted(Fate.LOST, -1, 40, "truncated"),))
    after = Run(A, 5, 1, 90, 100, 1)
    runs = [lines_of(A, 0, 5), lost, after]
    assert merged(runs) == runs
    assert bare_passage("t", "id", runs, no_path)["partition"] == -1


def test_lines_are_said_where_they_are_not_events() -> None:
    assert run_json(lines_of(A, 0, 3), no_path)["lines"] == -1
    assert run_json(Run(A, 0, 3, 0, 90, 7), no_path)["lines"] == 7
    assert run_json(lines_of(A, 0, 3), lambda source: f"/{source}")["path"] == "/a"


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.data())
def test_however_spread(sizes: list[int], data: st.DataObject) -> None:
    """Runs of two sources, alternating: what is merged says of every offset what it was."""
    statements, seqs, offset = [], {A: 0, B: 0}, 0
    for number, size in enumerate(sizes):
        source = data.draw(st.sampled_from([A, B]))
        statements.append(shipped_with(number, offset, lines_of(source, seqs[source], size)))
        seqs[source] += size
        offset += size
    (passage,) = passages_of(statements, no_path)
    assert passage["offsets"] == [{"first": 0, "count": offset}]
    said = [
        (run["source"], run["seq"] + at) for run in passage["runs"] for at in range(run["events"])
    ]
    true = [
        (run.source, run.seq + at)
        for each in statements
        for run in each.runs
        for at in range(run.events)
    ]
    assert said == true
    assert all(one["source"] != other["source"] for one, other in pairwise(passage["runs"]))

"""Logs that lost what they had acknowledged, and gave the same offsets to other events."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from audit.findings import FaultKind, State
from tests.audit.judged_ledger import FIRST, NOW, judged
from tests.audit.store.said import (
    HOUR,
    MINUTE,
    ROOT,
    TOPIC,
    TOPIC_ID,
    Json,
    entry,
    passage,
    run,
    window,
)

TIME = FIRST + MINUTE
LATER = FIRST + HOUR + MINUTE


def shipped(
    seq: int, first: int, events: int, *, time: int = TIME, epoch: int = 0, file: str = "file"
) -> Json:
    """By one agent, of lines of ten bytes."""
    runs = [
        run(
            file,
            seq,
            events,
            path=f"/log/{file}",
            position=seq * 10,
            end_position=(seq + events) * 10,
        )
    ]
    return passage(0, first, events, [window(time, events)], runs=runs, leader_epoch=epoch)


def agent(number: int, *passages: Json, time: int = TIME) -> Json:
    beat = {"until": NOW, "topics": [TOPIC]}
    return entry("agent", "agent", number, time, passages=list(passages), heartbeats=[beat])


def broker(
    number: int, *stretches: tuple[int, int, int, int], journal: str = "broker", **more: Any
) -> Json:
    """Counted: first, count, window, epoch."""
    passages = [
        passage(0, first, count, [window(time, count)], leader_epoch=epoch)
        for first, count, time, epoch in stretches
    ]
    return entry("broker", journal, number, TIME + number, passages=passages, **more)


def loader(number: int, first: int, count: int, time: int, *runs: Json, epoch: int = 0) -> Json:
    said = passage(0, first, count, [window(time, count)], runs=list(runs), leader_epoch=epoch)
    return entry("hdfs", "loader", number, time, destination=ROOT, run=number, passages=[said])


def withdrawn(first: int, count: int, epoch: int, **more: Any) -> Json:
    return {
        "topic": TOPIC,
        "topic_id": TOPIC_ID,
        "partition": 0,
        "leader_epoch": epoch,
        "first": first,
        "count": count,
        "reason": "its tail could not be recovered",
        **more,
    }


def damaged(first: int, count: int) -> Json:
    return {
        "topic": TOPIC,
        "topic_id": TOPIC_ID,
        "partition": 0,
        "offsets": {"first": first, "count": count},
        "reason": "its CRC does not match",
    }


def lost_tail(*, told: bool) -> list[Json]:
    """Of six hundred events the last two hundred were lost before they were loaded; then four
    hundred others were written from there on."""
    gone = [withdrawn(400, 200, 3)] if told else []
    return [
        agent(0, shipped(0, 0, 600)),
        broker(0, (0, 600, TIME, 0)),
        loader(0, 0, 400, TIME, run("file", 0, 400)),
        agent(1, shipped(600, 400, 400, time=LATER, epoch=3), time=LATER),
        broker(1, (400, 400, LATER, 3), withdrawn=gone),
        loader(1, 400, 400, LATER, run("file", 600, 400), epoch=3),
    ]


each_order = pytest.mark.parametrize(
    "order",
    [
        each if each in {0, 2} else pytest.param(each, marks=pytest.mark.not_quick("other orders"))
        for each in range(6)
    ],
)


def in_orders(said: Sequence[Json]) -> list[list[list[Json]]]:
    """Together, one by one, backwards, and by tiers."""
    by_tier = sorted(said, key=lambda each: each["tier"])
    return [
        [list(said)],
        [[each] for each in said],
        [[each] for each in reversed(said)],
        [[each] for each in by_tier],
        [[each] for each in reversed(by_tier)],
        [list(said), list(said)],
    ]


@each_order
@pytest.mark.parametrize("told", [True, False])
def test_offsets_that_were_used_again(tmp_path: Path, order: int, told: bool) -> None:
    """Exactly the lost ones are missing, by name; the others are their own."""
    verdict = judged(tmp_path, in_orders(lost_tail(told=told))[order])
    (finding,) = verdict.findings
    assert (finding.kind, finding.tier, finding.host) == (
        FaultKind.MISSING,
        "hdfs",
        "host-of-agent",
    )
    assert (finding.seq, finding.events) == (400, 200)
    assert (finding.partition, finding.offset, finding.offsets) == (0, 400, 200)
    why = "its tail could not be recovered" if told else "it went on before them"
    assert finding.words.endswith(
        f"are not in hdfs://logs: the log has lost them: {why} (clicks-0, offsets 400 to 599)"
    )
    assert [each.state for each in verdict.windows] == [State.MISSING, State.COMPLETE]
    assert verdict.totals.missing == 200
    assert not verdict.waits


def test_an_agent_that_speaks_last_of_what_was_lost(tmp_path: Path) -> None:
    """The log is shorter now than what it speaks of: no loader will come there."""
    said = [
        agent(0, shipped(0, 0, 400)),
        broker(0, (0, 600, TIME, 0)),
        broker(1, withdrawn=[withdrawn(400, 200, 3)]),
        loader(0, 0, 400, TIME, run("file", 0, 400)),
        agent(1, shipped(400, 400, 200)),
    ]
    verdict = judged(tmp_path, [[each] for each in said])
    (finding,) = verdict.findings
    assert (finding.source, finding.seq, finding.events) == ("file", 400, 200)


def test_what_was_loaded_before_it_was_lost_is_fine(tmp_path: Path) -> None:
    said = lost_tail(told=True)
    said.insert(3, loader(2, 400, 200, TIME, run("file", 400, 200)))
    for number, chunks in enumerate(in_orders(said)):
        verdict = judged(tmp_path / str(number), chunks)
        assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


def test_what_nobody_had_counted_is_missing_at_the_brokers(tmp_path: Path) -> None:
    """And what had been counted, in the files: each of them once."""
    said = lost_tail(told=True)
    said[1] = broker(0, (0, 500, TIME, 0))
    verdict = judged(tmp_path, [said])
    assert sorted((each.tier, each.seq, each.events) for each in verdict.findings) == [
        ("broker", 500, 100),
        ("hdfs", 400, 100),
    ]
    assert verdict.totals.missing == 200


def test_what_is_read_before_it_is_counted_and_lost_is_fine(tmp_path: Path) -> None:
    said = lost_tail(told=True)
    said[1] = broker(0, (0, 500, TIME, 0))
    said.insert(3, loader(2, 400, 200, TIME, run("file", 400, 200)))
    verdict = judged(tmp_path, [said])
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


def test_a_log_that_is_lost_whole(tmp_path: Path) -> None:
    """Its directory was removed; it begins anew with offset 0."""
    said = [
        agent(0, shipped(0, 0, 600)),
        broker(0, (0, 600, TIME, 0)),
        loader(0, 0, 450, TIME, run("file", 0, 450)),
        agent(1, shipped(600, 0, 700, time=LATER, epoch=1), time=LATER),
        broker(1, (0, 700, LATER, 1), withdrawn=[withdrawn(0, 600, 1)]),
        loader(1, 0, 700, LATER, run("file", 600, 700), epoch=1),
    ]
    verdict = judged(tmp_path, [said])
    (finding,) = verdict.findings
    assert (finding.seq, finding.events, finding.offset) == (450, 150, 450)
    assert [each.state for each in verdict.windows] == [State.MISSING, State.COMPLETE]


@each_order
def test_a_log_that_begins_late(tmp_path: Path, order: int) -> None:
    """What lies behind its new beginning is still there, and is waited for."""
    said = [
        agent(0, shipped(0, 0, 1_000)),
        broker(0, (0, 1_000, TIME, 0)),
        loader(0, 0, 500, TIME, run("file", 0, 500)),
        broker(1, withdrawn=[withdrawn(0, 100, 1, resumes=1_000)]),
    ]
    verdict = judged(tmp_path / "waiting", in_orders(said)[order])
    assert verdict.findings == []
    assert [each.on for each in verdict.waits] == ["hdfs"]
    assert (verdict.windows[0].pending, verdict.windows[0].missing) == (500, 0)
    said += [
        agent(1, shipped(1_000, 1_000, 50, time=LATER, epoch=1), time=LATER),
        broker(2, (1_000, 50, LATER, 1)),
        loader(1, 500, 550, LATER, run("file", 500, 550), epoch=1),
    ]
    said[6]["passages"][0]["windows"] = [window(TIME, 500), window(LATER, 50)]
    verdict = judged(tmp_path / "loaded", in_orders(said)[order])
    assert (verdict.state, verdict.findings, verdict.waits) == (State.COMPLETE, [], [])


@each_order
def test_a_log_that_lost_its_beginning_before_it_was_loaded(tmp_path: Path, order: int) -> None:
    """Only what is gone is missing, whoever has gone past it; and what nobody had counted."""
    said = [
        agent(0, shipped(0, 0, 80), shipped(80, 80, 920)),
        broker(0, (0, 90, TIME, 0)),
        broker(1, (200, 800, TIME, 1), withdrawn=[withdrawn(0, 200, 1, resumes=1_000)]),
        loader(0, 0, 40, TIME, run("file", 0, 40)),
        loader(1, 200, 300, TIME, run("file", 200, 300), epoch=1),
    ]
    verdict = judged(tmp_path, in_orders(said)[order])
    found = sorted((each.tier, each.seq, each.events) for each in verdict.findings)
    assert found == [("broker", 90, 110), ("hdfs", 40, 40), ("hdfs", 80, 10)]
    assert [each.on for each in verdict.waits] == ["hdfs"]


@each_order
def test_a_log_that_lost_both_ends(tmp_path: Path, order: int) -> None:
    """Under one leader epoch. What is left between them was loaded later."""
    both = [withdrawn(0, 100, 1, resumes=800), withdrawn(800, 200, 1, resumes=800)]
    said = [
        agent(0, shipped(0, 0, 1_000)),
        broker(0, (0, 1_000, TIME, 0)),
        loader(0, 0, 50, TIME, run("file", 0, 50)),
        broker(1, withdrawn=both),
        agent(1, shipped(1_000, 800, 300, time=LATER, epoch=1), time=LATER),
        broker(2, (800, 300, LATER, 1)),
        loader(1, 100, 1_000, LATER, run("file", 100, 700), run("file", 1_000, 300), epoch=1),
    ]
    said[6]["passages"][0]["windows"] = [window(TIME, 700), window(LATER, 300)]
    verdict = judged(tmp_path, in_orders(said)[order])
    found = [(each.seq, each.events, each.offset, each.partition) for each in verdict.findings]
    assert sorted(found) == [(50, 50, 50, 0), (800, 200, 800, 0)]
    assert verdict.totals.missing == 250
    assert not verdict.waits


def test_a_log_that_is_lost_twice(tmp_path: Path) -> None:
    said = [
        *lost_tail(told=True),
        broker(2, (700, 50, LATER, 5), withdrawn=[withdrawn(700, 100, 5)]),
        agent(2, shipped(1_000, 700, 50, time=LATER, epoch=5), time=LATER),
        loader(2, 700, 50, LATER, run("file", 1_000, 50), epoch=5),
    ]
    for number, chunks in enumerate(in_orders(said)):
        verdict = judged(tmp_path / str(number), chunks)
        found = [(each.seq, each.events) for each in verdict.findings]
        assert found == [(400, 200)]


def test_a_loader_that_goes_on_beyond_the_new_beginning(tmp_path: Path) -> None:
    """It had read to 600, and does not see that other events are at 400 to 600 now."""
    said = lost_tail(told=True)
    said[2] = loader(0, 0, 600, TIME, run("file", 0, 600))
    said[5] = loader(1, 600, 200, LATER, run("file", 800, 200), epoch=3)
    verdict = judged(tmp_path, [said])
    (finding,) = verdict.findings
    assert (finding.kind, finding.seq, finding.events) == (FaultKind.MISSING, 600, 200)
    assert "the log has lost" not in finding.words
    assert [each.state for each in verdict.windows] == [State.COMPLETE, State.MISSING]


@each_order
def test_a_change_of_leader_is_nothing(tmp_path: Path, order: int) -> None:
    """The epoch rises, agents and brokers say so each in their own time, and nothing overlaps."""
    said = [
        agent(0, shipped(0, 0, 300), shipped(300, 300, 300, epoch=2)),
        broker(0, (0, 400, TIME, 0), (400, 100, TIME, 1)),
        broker(0, (500, 100, TIME, 2), journal="the next leader"),
        loader(0, 0, 600, TIME, run("file", 0, 600), epoch=2),
    ]
    verdict = judged(tmp_path, in_orders(said)[order])
    assert (verdict.state, verdict.findings, verdict.waits) == (State.COMPLETE, [], [])


@each_order
def test_a_next_leader_that_counts_once_more(tmp_path: Path, order: int) -> None:
    """The same events under a higher epoch: neither lost nor doubled."""
    said = [
        agent(0, shipped(0, 0, 600)),
        broker(0, (0, 500, TIME, 0)),
        broker(0, (0, 600, TIME, 1), journal="the next leader"),
        loader(0, 0, 600, TIME, run("file", 0, 600), epoch=1),
    ]
    verdict = judged(tmp_path, in_orders(said)[order])
    assert (verdict.state, verdict.findings, verdict.waits) == (State.COMPLETE, [], [])


@each_order
def test_what_a_next_leader_has_counted_once_more_is_to_be_loaded(
    tmp_path: Path, order: int
) -> None:
    said = [
        agent(0, shipped(0, 0, 600)),
        broker(0, (0, 600, TIME, 0)),
        broker(0, (0, 600, TIME, 1), journal="the next leader"),
        loader(0, 0, 450, TIME, run("file", 0, 450), epoch=1),
    ]
    verdict = judged(tmp_path, in_orders(said)[order])
    assert (verdict.state, verdict.findings) == (State.PENDING, [])
    assert [each.on for each in verdict.waits] == ["hdfs"]


def test_what_was_said_before_the_cut_is_known_is_told_apart_later(tmp_path: Path) -> None:
    """In all orders of the entries that matter most."""
    first, counted, landed, *rest = lost_tail(told=True)
    for number, order in enumerate(itertools.permutations(rest)):
        chunks = [[first, counted, landed], *([each] for each in order)]
        verdict = judged(tmp_path / str(number), chunks)
        assert [(each.seq, each.events) for each in verdict.findings] == [(400, 200)]
        assert verdict.state is State.MISSING


@each_order
def test_damage_that_was_given_up(tmp_path: Path, order: int) -> None:
    """It is missing with all behind it. Who gets its offsets next is not damaged, unless that is
    said of him as well; what lies before the cut still is."""
    said = [
        *lost_tail(told=True)[:3],
        broker(1, damaged=[damaged(390, 60)]),
        broker(2, withdrawn=[withdrawn(400, 200, 1)]),
        agent(1, shipped(600, 400, 300, time=LATER, epoch=1), time=LATER),
        broker(3, (400, 300, LATER, 1)),
        loader(1, 400, 300, LATER, run("file", 600, 300), epoch=1),
    ]
    verdict = judged(tmp_path / "once", in_orders(said)[order])
    found = sorted((each.kind, each.offset, each.offsets, each.seq) for each in verdict.findings)
    assert found == [(FaultKind.CHANGED, 390, 10, 390), (FaultKind.MISSING, 400, 200, 400)]
    assert [each.state for each in verdict.windows] == [State.CHANGED, State.COMPLETE]
    said.append(broker(4, damaged=[damaged(390, 60)]))
    verdict = judged(tmp_path / "again", in_orders(said)[order])
    found = sorted((each.kind, each.offset, each.offsets, each.seq) for each in verdict.findings)
    assert found == [
        (FaultKind.CHANGED, 390, 10, 390),
        (FaultKind.CHANGED, 400, 50, 600),
        (FaultKind.MISSING, 400, 200, 400),
    ]


def accepting(first: int, count: int, time: int) -> Json:
    known = {
        "topic": TOPIC,
        "partition": 0,
        "offsets": [{"first": first, "count": count}],
        "from_time": None,
        "to_time": None,
        "reason": "the disk broke",
    }
    return entry("operator", "operator", time, time, accepted=[known])


def test_accepted_as_it_is_shown(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [[*lost_tail(told=True), accepting(400, 200, LATER)]])
    (finding,) = verdict.findings
    assert finding.accepted == "the disk broke"
    assert verdict.state is State.COMPLETE


@each_order
@pytest.mark.parametrize("told", [True, False])
def test_what_was_accepted_covers_no_later_loss(tmp_path: Path, order: int, told: bool) -> None:
    """Of other events at the same offsets, whether they were written before it was accepted or
    after; until that is accepted as well."""
    soon, again = LATER + MINUTE, LATER + 2 * MINUTE
    gone = [withdrawn(400, 200, 4)] if told else []
    said = [
        agent(0, shipped(0, 0, 600)),
        broker(0, (0, 600, TIME, 0)),
        loader(0, 0, 400, TIME, run("file", 0, 400)),
        broker(1, withdrawn=[withdrawn(400, 200, 3)] if told else []),
        agent(1, shipped(600, 400, 200, epoch=3), time=TIME + 3),
        broker(2, (400, 200, TIME, 3)),
        accepting(400, 200, TIME + 4),
        broker(10, withdrawn=gone),
        agent(2, shipped(800, 400, 300, time=again, epoch=4), time=again),
        broker(11, (400, 300, again, 4)),
        loader(1, 400, 300, again, run("file", 800, 300), epoch=4),
        *(broker(number) for number in range(3, 10)),
    ]
    verdict = judged(tmp_path / "once", in_orders(said)[order])
    assert [(each.seq, each.events, each.accepted) for each in verdict.findings] == [
        (600, 200, ""),
        (400, 200, "the disk broke"),
    ]
    assert verdict.state is State.MISSING
    said.append(accepting(400, 200, soon))
    verdict = judged(tmp_path / "twice", in_orders(said)[order])
    assert [each.accepted for each in verdict.findings] == ["the disk broke"] * 2
    assert verdict.state is State.COMPLETE


@each_order
def test_what_was_accepted_covers_nothing_that_is_written_there_next(
    tmp_path: Path, order: int
) -> None:
    """Neither damaged nor passed over by a loader, even if those events are older."""
    said = [
        *lost_tail(told=True)[:3],
        broker(1, withdrawn=[withdrawn(400, 200, 1)]),
        accepting(400, 200, TIME + 2),
        agent(1, shipped(600, 400, 300, epoch=1), time=LATER),
        entry(
            "broker",
            "broker",
            2,
            LATER,
            passages=[passage(0, 400, 300, [window(TIME, 300)], leader_epoch=1)],
            damaged=[damaged(400, 50)],
        ),
        loader(1, 500, 200, TIME, run("file", 700, 200), epoch=1),
    ]
    verdict = judged(tmp_path, in_orders(said)[order])
    found = {(each.kind, each.seq, each.events): each.accepted for each in verdict.findings}
    assert found == {
        (FaultKind.MISSING, 400, 200): "the disk broke",
        (FaultKind.CHANGED, 600, 50): "",
        (FaultKind.MISSING, 650, 50): "",
    }


def test_what_was_accepted_stays_so_when_the_log_loses_it(tmp_path: Path) -> None:
    """A loader had passed over it: it was missing before, and is missing now."""
    said = [
        agent(0, shipped(0, 0, 600)),
        broker(0, (0, 600, TIME, 0)),
        loader(0, 0, 400, TIME, run("file", 0, 400)),
        loader(1, 450, 150, TIME, run("file", 450, 150)),
        accepting(400, 50, TIME + 2),
        broker(1, withdrawn=[withdrawn(300, 300, 3)]),
        *(broker(number) for number in range(2, 10)),
        broker(10, withdrawn=[withdrawn(300, 300, 3)]),
    ]
    for number, chunks in enumerate(in_orders(said)):
        verdict = judged(tmp_path / str(number), chunks)
        found = [(each.seq, each.events, each.accepted) for each in verdict.findings]
        assert found == [(400, 50, "the disk broke")]

"""Logs that lost what they had acknowledged, and gave the same offsets to other events; what a log
lost before anybody had spoken of it; and what was shipped once more since."""

from pathlib import Path

import pytest
from msgspec.structs import force_setattr

from audit.reconciling.findings import FaultKind, Finding, State
from audit.reconciling.verdict import reconcile
from tests.audit.audited_ledger import NOW, judged, pictured
from tests.audit.log_entries import (
    LATER,
    TIME,
    accepting,
    agent,
    broker,
    damaged,
    each_order,
    in_orders,
    load,
    loader,
    operator,
    shipped,
    withdrawn,
)
from tests.audit.store.said import HOUR, MINUTE, TOPIC, Json, excepted, passage, run, window

pytestmark = pytest.mark.not_quick("judges hundreds of ledgers")

# Of what had been counted, or agents had shipped


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


@each_order
@pytest.mark.parametrize("told", [True, False])
def test_offsets_that_were_used_again(tmp_path: Path, order: int, told: bool) -> None:
    """Exactly the lost ones are missing, by name; the others are their own."""
    verdict = judged(tmp_path, in_orders(lost_tail(told=told))[order])
    (finding,) = verdict.findings
    assert named(finding) == (FaultKind.MISSING, "hdfs", 400, 200)
    assert (finding.host, finding.partition) == ("host-of-agent", 0)
    assert (finding.seq, finding.events) == (400, 200)
    why = "its tail could not be recovered" if told else "it continued at an earlier offset"
    assert finding.words.endswith(
        f"are not in hdfs://logs: the log has lost them: {why} (clicks-0, offsets 400 to 599)"
    )
    assert [each.state for each in verdict.windows] == [State.MISSING, State.COMPLETE]
    assert verdict.totals.missing == 200
    assert not verdict.waits


def loaded_before_it_was_lost(counted: int) -> list[Json]:
    said = lost_tail(told=True)
    said[1] = broker(0, (0, counted, TIME, 0))
    return [*said, loader(2, 400, 200, TIME, run("file", 400, 200))]


def with_windows(load: Json, *windows: Json) -> Json:
    load["passages"][0]["windows"] = list(windows)
    return load


LOSSES: dict[str, tuple[list[Json], list[tuple[str, int, int]]]] = {
    "it was loaded before": (loaded_before_it_was_lost(600), []),
    "it was loaded before it was counted": (loaded_before_it_was_lost(500), []),
    "nobody had counted some of it": (
        [lost_tail(told=True)[0], broker(0, (0, 500, TIME, 0)), *lost_tail(told=True)[2:]],
        [("broker", 500, 100), ("hdfs", 400, 100)],
    ),
    "an agent speaks last of it": (
        [
            agent(0, shipped(0, 0, 400)),
            broker(0, (0, 600, TIME, 0)),
            broker(1, withdrawn=[withdrawn(400, 200, 3)]),
            loader(0, 0, 400, TIME, run("file", 0, 400)),
            agent(1, shipped(400, 400, 200)),
        ],
        [("hdfs", 400, 200)],
    ),
    "both ends, under one leader epoch": (
        [
            agent(0, shipped(0, 0, 1_000)),
            broker(0, (0, 1_000, TIME, 0)),
            loader(0, 0, 50, TIME, run("file", 0, 50)),
            broker(
                1,
                withdrawn=[withdrawn(0, 100, 1, resumes=800), withdrawn(800, 200, 1, resumes=800)],
            ),
            agent(1, shipped(1_000, 800, 300, time=LATER, epoch=1), time=LATER),
            broker(2, (800, 300, LATER, 1)),
            with_windows(
                loader(
                    *(1, 100, 1_000, LATER, run("file", 100, 700), run("file", 1_000, 300)), epoch=1
                ),
                *(window(TIME, 700), window(LATER, 300)),
            ),
        ],
        [("hdfs", 50, 50), ("hdfs", 800, 200)],
    ),
    "only a leader, twice": (
        [
            agent(0, shipped(0, 0, 300), shipped(300, 300, 300, epoch=2)),
            broker(0, (0, 400, TIME, 0), (400, 100, TIME, 1)),
            broker(0, (500, 100, TIME, 2), journal="the next leader"),
            loader(0, 0, 600, TIME, run("file", 0, 600), epoch=2),
        ],
        [],
    ),
}


@each_order
@pytest.mark.parametrize("what", LOSSES)
def test_exactly_what_was_lost_is_missing(tmp_path: Path, what: str, order: int) -> None:
    said, expected = LOSSES[what]
    verdict = judged(tmp_path, in_orders(said)[order])
    assert sorted((each.tier, each.seq, each.events) for each in verdict.findings) == expected
    assert {each.kind for each in verdict.findings} <= {FaultKind.MISSING}
    assert verdict.totals.missing == sum(events for *_, events in expected)
    assert verdict.state is (State.MISSING if expected else State.COMPLETE)


@each_order
def test_a_log_that_begins_late(tmp_path: Path, order: int) -> None:
    """What lies behind its new beginning is still there, and is waited for."""
    said = [
        agent(0, shipped(0, 0, 1_000)),
        broker(0, (0, 1_000, TIME, 0)),
        loader(0, 0, 500, TIME, run("file", 0, 500)),
        broker(1, withdrawn=[withdrawn(0, 100, 1, resumes=1_000)]),
    ]
    verdict = judged(tmp_path, in_orders(said)[order])
    assert verdict.findings == []
    assert [each.on for each in verdict.waits] == ["hdfs"]
    assert (verdict.windows[0].pending, verdict.windows[0].missing) == (500, 0)


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
@pytest.mark.parametrize("loaded", [600, 450])
def test_a_next_leader_that_counts_once_more(tmp_path: Path, loaded: int, order: int) -> None:
    """The same events under a higher epoch: neither lost nor doubled, and to be loaded."""
    said = [
        agent(0, shipped(0, 0, 600)),
        broker(0, (0, 500, TIME, 0)),
        broker(0, (0, 600, TIME, 1), journal="the next leader"),
        loader(0, 0, loaded, TIME, run("file", 0, loaded), epoch=1),
    ]
    verdict = judged(tmp_path, in_orders(said)[order])
    state, waits = (State.COMPLETE, []) if loaded == 600 else (State.PENDING, ["hdfs"])
    assert (verdict.state, verdict.findings) == (state, [])
    assert [each.on for each in verdict.waits] == waits


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


@each_order
@pytest.mark.parametrize(
    ("told", "known"),
    [
        (True, accepting(400, 200, TIME + 4)),
        (False, accepting(400, 200, TIME + 4)),
        (True, operator(TIME + 4, "the disk broke", from_time=0)),
    ],
)
def test_what_was_accepted_covers_no_later_loss(
    tmp_path: Path, order: int, told: bool, known: Json
) -> None:
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
        known,
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
        broker(2, (400, 300, TIME, 1), at=LATER, damaged=[damaged(400, 50)]),
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


# Of which nobody had spoken


WHY = "the log lost them before they were counted: its tail could not be recovered"


def others_lost(counted: int = 400) -> list[Json]:
    """Of another producer's 450 records the last fifty were lost; others lie there now."""
    return [
        broker(0, (0, counted, TIME, 0)),
        loader(0, 0, 400, TIME),
        broker(1, (400, 100, LATER, 1), withdrawn=[withdrawn(400, 50, 1)]),
        loader(1, 400, 100, LATER, epoch=1),
    ]


def named(finding: Finding) -> tuple[FaultKind, str, int, int]:
    return finding.kind, finding.tier, finding.offset, finding.offsets


@each_order
def test_what_nobody_had_spoken_of_is_missing(tmp_path: Path, order: int) -> None:
    verdict = judged(tmp_path, in_orders(others_lost())[order])
    (finding,) = verdict.findings
    assert named(finding) == (FaultKind.MISSING, "broker", 400, 50)
    assert finding.words == f"clicks-0, offsets 400 to 449 are not at the brokers: {WHY}"
    assert (verdict.state, verdict.totals.missing) == (State.MISSING, 50)
    assert verdict.windows[0].state is State.MISSING  # since the last of what was counted
    assert not verdict.waits


@each_order
@pytest.mark.parametrize(
    ("counted", "loaded", "expected"),
    [(430, 400, [("broker", 430, 20), ("hdfs", 400, 30)]), (400, 440, [("broker", 440, 10)])],
)
def test_each_is_named_once_where_it_is_first_missing(
    tmp_path: Path, counted: int, loaded: int, expected: list[tuple[str, int, int]], order: int
) -> None:
    said = others_lost(counted)
    said[1] = loader(0, 0, loaded, TIME)
    verdict = judged(tmp_path, in_orders(said)[order])
    assert sorted(map(named, verdict.findings)) == [(FaultKind.MISSING, *e) for e in expected]
    assert verdict.totals.missing == sum(offsets for *_, offsets in expected)


@each_order
def test_an_agent_says_that_they_were_its_own(tmp_path: Path, order: int) -> None:
    """Of some of them; each is missing once, and those have names."""
    said = [*others_lost(), agent(0, shipped(0, 410, 30))]
    verdict = judged(tmp_path, in_orders(said)[order])
    assert sorted((each.offset, each.offsets, each.source) for each in verdict.findings) == [
        (400, 10, ""),
        (410, 30, "file"),
        (440, 10, ""),
    ]
    assert verdict.totals.missing == 50


@pytest.mark.parametrize(
    ("said", "first"),
    [
        ([each for each in others_lost() if each["tier"] == "broker"], 400),
        ([broker(0, withdrawn=[withdrawn(0, 50, 1)])], 0),
    ],
    ids=["nobody loads", "nothing was ever counted"],
)
def test_they_are_missing_where_brokers_alone_speak(
    tmp_path: Path, said: list[Json], first: int
) -> None:
    verdict = judged(tmp_path, [said])
    assert [named(each) for each in verdict.findings] == [(FaultKind.MISSING, "broker", first, 50)]
    assert verdict.state is State.MISSING


@each_order
def test_what_is_lost_twice_is_missing_twice(tmp_path: Path, order: int) -> None:
    said = [*others_lost(), broker(2, withdrawn=[withdrawn(480, 40, 2)])]
    verdict = judged(tmp_path, in_orders(said)[order])
    assert sorted(map(named, verdict.findings)) == [
        (FaultKind.MISSING, "broker", 400, 50),
        (FaultKind.MISSING, "broker", 500, 20),
    ]


def test_they_were_written_since_the_broker_counted_last(tmp_path: Path) -> None:
    """An agent has spoken since, of what it had sent before."""
    said = [
        broker(0, (0, 400, TIME, 0)),
        agent(0, shipped(0, 0, 10), time=TIME + 1_000),
        broker(2_000, withdrawn=[withdrawn(400, 50, 1)]),
    ]
    for number, chunks in enumerate(in_orders(said)):
        (loss,) = pictured(tmp_path / str(number), chunks).withdrawn
        assert loss.from_time <= TIME < loss.to_time == TIME + 2_001


def test_nobody_had_spoken_of_anything_there(tmp_path: Path) -> None:
    """An agent does later, of what was written before."""
    said = [
        broker(0, withdrawn=[withdrawn(400, 50, 1)]),
        agent(0, shipped(0, 0, 10, time=TIME - 2_000), time=TIME + 1_000),
    ]
    for number, chunks in enumerate(in_orders(said)):
        (loss,) = pictured(tmp_path / str(number), chunks).withdrawn
        assert loss.from_time < TIME - 2_000


def test_somebody_may_still_speak_of_them(tmp_path: Path) -> None:
    picture = pictured(tmp_path, [others_lost()])
    verdict = reconcile(picture)
    assert verdict.state is State.MISSING
    force_setattr(picture, "now", TIME + 1)
    verdict = reconcile(picture)
    assert (verdict.state, verdict.findings) == (State.PENDING, [])
    assert "ledger" in {each.on for each in verdict.waits}


@pytest.mark.parametrize("offsets", [(400, 50), (400, 20)])
def test_they_are_accepted_as_they_are_shown(tmp_path: Path, offsets: tuple[int, int]) -> None:
    verdict = judged(tmp_path, [[*others_lost(), accepting(*offsets, NOW - HOUR)]])
    open_ = [named(each) for each in verdict.findings if not each.accepted]
    rest = (FaultKind.MISSING, "broker", 420, 30)
    assert open_ == ([] if offsets == (400, 50) else [rest])


def lost_nobody_knows_how_many() -> list[Json]:
    said = others_lost()
    said[2] = broker(1, (400, 100, LATER, 1), withdrawn=[withdrawn(400, -1, 1)])
    return said


def test_how_many_is_unknown_where_others_write(tmp_path: Path) -> None:
    for number, chunks in enumerate(in_orders(lost_nobody_knows_how_many())):
        verdict = judged(tmp_path / str(number), chunks)
        (finding,) = verdict.findings
        assert named(finding)[:3] == (FaultKind.UNKNOWN, "broker", 400)
        assert finding.words == (
            "clicks-0: what was written from offset 400 on is gone, and how much that was is"
            f" unknown: {WHY}"
        )
        assert verdict.state is State.UNKNOWN


def test_agents_know_how_many_they_have_shipped(tmp_path: Path) -> None:
    said = [
        agent(0, shipped(0, 0, 600)),
        broker(0, (0, 500, TIME, 0)),
        loader(0, 0, 600, TIME, run("file", 0, 600)),
        broker(1, withdrawn=[withdrawn(0, -1, 1)]),
    ]
    for number, chunks in enumerate(in_orders(said)):
        verdict = judged(tmp_path / str(number), chunks)
        assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


def test_what_nobody_knows_the_number_of_is_accepted_by_its_first_offset(tmp_path: Path) -> None:
    said = lost_nobody_knows_how_many()
    (finding,) = judged(tmp_path / "before", [said]).findings
    known = accepting(finding.offset, finding.offsets, NOW - HOUR)
    verdict = judged(tmp_path / "after", [[*said, known]])
    assert [each.accepted for each in verdict.findings] == ["the disk broke"]
    assert verdict.state is State.COMPLETE


# Shipped again since


def lost_and_again(lost: int = 200, again: int = 200) -> list[Json]:
    """Of six hundred events the log lost some at the end; as many at the end of the file come once
    more, and land where those had been."""
    first, seq = 600 - lost, 600 - again
    return [
        agent(0, shipped(0, 0, first), shipped(first, first, lost)),
        broker(0, (0, 600, TIME, 0)),
        loader(0, 0, first, TIME, run("file", 0, first)),
        agent(1, shipped(seq, first, again, time=LATER, epoch=3), time=LATER),
        broker(1, (first, again, LATER, 3), withdrawn=[withdrawn(first, lost, 3)]),
        loader(1, first, again, LATER, run("file", seq, again), epoch=3),
    ]


@each_order
def test_nothing_is_missing_that_was_shipped_again(tmp_path: Path, order: int) -> None:
    verdict = judged(tmp_path, in_orders(lost_and_again())[order])
    said = sorted((each.kind, each.events, each.harmless) for each in verdict.findings)
    assert said == [
        (FaultKind.DUPLICATED, 200, "sent twice, landed once"),
        (FaultKind.MISSING, 200, "shipped again since, and landed"),
    ]
    assert (verdict.state, verdict.totals.missing) == (State.COMPLETE, 0)
    assert verdict.totals.duplicated == 0
    assert {each.state for each in verdict.windows} == {State.COMPLETE}


@each_order
def test_what_did_not_come_again_is_missing(tmp_path: Path, order: int) -> None:
    verdict = judged(tmp_path, in_orders(lost_and_again(again=150))[order])
    open_ = [each for each in verdict.findings if each.is_open]
    assert [(each.kind, each.seq, each.events, each.offset) for each in open_] == [
        (FaultKind.MISSING, 400, 50, 400)
    ]
    assert (verdict.state, verdict.totals.missing) == (State.MISSING, 50)


def test_what_was_lost_is_weighed_before_what_loaders_have_dropped(tmp_path: Path) -> None:
    """Of two files in one window one had been lost, and the other one was dropped: it is not that
    what was dropped explains the first, and nothing is left for the other."""
    other = shipped(0, 0, 100, file="a-whole-one")
    again = shipped(0, 600, 100, time=LATER, epoch=3, file="a-whole-one")
    rows = window(LATER, 200, bytes=3_000, crc_sum=2_100, excepted=[excepted("duplicate", 100)])
    landed = passage(0, 400, 300, [rows], runs=[run("file", 300, 200)], leader_epoch=3)
    said = [
        agent(0, other, shipped(0, 100, 300), shipped(300, 400, 200)),
        broker(0, (0, 600, TIME, 0)),
        loader(0, 0, 400, TIME, run("a-whole-one", 0, 100), run("file", 0, 300)),
        agent(1, shipped(300, 400, 200, time=LATER, epoch=3), again, time=LATER),
        broker(1, (400, 300, LATER, 3), withdrawn=[withdrawn(400, 200, 3)]),
        load(1, landed, time=LATER),
    ]
    verdict = judged(tmp_path, [said])
    assert [each.words for each in verdict.findings if each.is_open] == []
    assert verdict.state is State.COMPLETE


@each_order
@pytest.mark.parametrize(
    ("first", "last", "state"),
    [(602, 600, State.COMPLETE), (0, 600, State.COMPLETE), (600, 602, State.MISSING)],
)
def test_a_file_that_was_read_again_in_other_lines(
    tmp_path: Path, first: int, last: int, state: State, order: int
) -> None:
    """What stood there for a while without an end were two events, and are one when the file is
    read again: no event that is missing is in it, by what its agent says at last."""
    finished = {"topic": TOPIC, "source": "file", "size": 6_000}
    said = [
        agent(0, shipped(0, 0, 398), shipped(398, 398, 204)),
        broker(0, (0, 602, TIME, 0)),
        loader(0, 0, 398, TIME, run("file", 0, 398)),
        agent(1, shipped(398, 398, 202, time=LATER, epoch=3), time=LATER),
        broker(1, (398, 202, LATER, 3), withdrawn=[withdrawn(398, 204, 3)]),
        loader(1, 398, 202, LATER, run("file", 398, 202), epoch=3),
    ]
    said[0]["finished"] = [finished | {"events": first}] if first else []
    said[3]["finished"] = [finished | {"events": last}]
    verdict = judged(tmp_path, in_orders(said)[order])
    assert verdict.state is state, verdict.findings

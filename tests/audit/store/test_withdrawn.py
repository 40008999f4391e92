"""Logs that lost what they had acknowledged before anybody had spoken of it."""

from pathlib import Path

import pytest
from msgspec.structs import force_setattr

from audit.findings import FaultKind, Finding, State
from audit.reconciling.verdict import reconcile
from tests.audit.judged_ledger import FIRST, NOW, judged, pictured
from tests.audit.store.said import HOUR, MINUTE, Json, run
from tests.audit.store.test_generations import (
    accepting,
    agent,
    broker,
    each_order,
    in_orders,
    loader,
    shipped,
    withdrawn,
)

TIME = FIRST + MINUTE
LATER = FIRST + HOUR + MINUTE
WHY = "the log lost them before anybody had counted them: its tail could not be recovered"


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
def test_they_are_missing(tmp_path: Path, order: int) -> None:
    verdict = judged(tmp_path, in_orders(others_lost())[order])
    (finding,) = verdict.findings
    assert named(finding) == (FaultKind.MISSING, "broker", 400, 50)
    assert finding.words == f"clicks-0, offsets 400 to 449 are not at the brokers: {WHY}"
    assert (verdict.state, verdict.totals.missing) == (State.MISSING, 50)
    assert verdict.windows[0].state is State.MISSING  # since the last of what was counted
    assert not verdict.waits


@each_order
def test_those_that_had_been_counted_are_named_once(tmp_path: Path, order: int) -> None:
    verdict = judged(tmp_path, in_orders(others_lost(counted=430))[order])
    assert sorted(map(named, verdict.findings)) == [
        (FaultKind.MISSING, "broker", 430, 20),
        (FaultKind.MISSING, "hdfs", 400, 30),
    ]
    assert verdict.totals.missing == 50


@each_order
def test_those_that_were_read_in_time_are_not_missing(tmp_path: Path, order: int) -> None:
    said = others_lost()
    said[1] = loader(0, 0, 440, TIME)
    verdict = judged(tmp_path, in_orders(said)[order])
    assert [named(each) for each in verdict.findings] == [(FaultKind.MISSING, "broker", 440, 10)]


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


def test_they_are_missing_where_nobody_loads(tmp_path: Path) -> None:
    said = [each for each in others_lost() if each["tier"] == "broker"]
    verdict = judged(tmp_path, [said])
    assert [named(each) for each in verdict.findings] == [(FaultKind.MISSING, "broker", 400, 50)]
    assert verdict.state is State.MISSING


def test_they_are_missing_where_nothing_was_ever_counted(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [[broker(0, withdrawn=[withdrawn(0, 50, 1)])]])
    assert [named(each) for each in verdict.findings] == [(FaultKind.MISSING, "broker", 0, 50)]
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


class TestHowManyIsNotKnown:
    def test_it_is_unknown_where_others_write(self, tmp_path: Path) -> None:
        said = others_lost()
        said[2] = broker(1, (400, 100, LATER, 1), withdrawn=[withdrawn(400, -1, 1)])
        for number, chunks in enumerate(in_orders(said)):
            verdict = judged(tmp_path / str(number), chunks)
            (finding,) = verdict.findings
            assert (finding.kind, finding.tier, finding.offset) == (
                FaultKind.UNKNOWN,
                "broker",
                400,
            )
            assert finding.words == (
                "clicks-0: what was written from offset 400 on is gone, and nobody knows how much"
                f" that was: {WHY}"
            )
            assert verdict.state is State.UNKNOWN

    def test_agents_know_what_they_have_shipped(self, tmp_path: Path) -> None:
        said = [
            agent(0, shipped(0, 0, 600)),
            broker(0, (0, 500, TIME, 0)),
            loader(0, 0, 600, TIME, run("file", 0, 600)),
            broker(1, withdrawn=[withdrawn(0, -1, 1)]),
        ]
        for number, chunks in enumerate(in_orders(said)):
            verdict = judged(tmp_path / str(number), chunks)
            assert (verdict.state, verdict.findings) == (State.COMPLETE, [])

    def test_it_is_accepted_by_its_first_offset(self, tmp_path: Path) -> None:
        said = others_lost()
        said[2] = broker(1, (400, 100, LATER, 1), withdrawn=[withdrawn(400, -1, 1)])
        (finding,) = judged(tmp_path / "before", [said]).findings
        known = accepting(finding.offset, finding.offsets, NOW - HOUR)
        verdict = judged(tmp_path / "after", [[*said, known]])
        assert [each.accepted for each in verdict.findings] == ["the disk broke"]
        assert verdict.state is State.COMPLETE

"""What a log has lost, and an agent that had forgotten it has shipped once more: it is missing
where it was, and has landed all the same."""

from pathlib import Path

import pytest

from audit.findings import FaultKind, State
from tests.audit.judged_ledger import FIRST, judged
from tests.audit.store.said import (
    HOUR,
    MINUTE,
    ROOT,
    TOPIC,
    Json,
    entry,
    excepted,
    passage,
    run,
    window,
)
from tests.audit.store.test_generations import (
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
def test_nothing_is_missing(tmp_path: Path, order: int) -> None:
    verdict = judged(tmp_path, in_orders(lost_and_again())[order])
    said = sorted((each.kind, each.events, each.accepted) for each in verdict.findings)
    assert said == [
        (FaultKind.DUPLICATED, 200, "sent twice, landed once"),
        (FaultKind.MISSING, 200, "shipped again since, and landed"),
    ]
    assert (verdict.state, verdict.totals.missing, verdict.totals.duplicated) == (
        *(State.COMPLETE, 0, 0),
    )
    assert {each.state for each in verdict.windows} == {State.COMPLETE}


@each_order
def test_what_did_not_come_again_is_missing(tmp_path: Path, order: int) -> None:
    verdict = judged(tmp_path, in_orders(lost_and_again(again=150))[order])
    open_ = [each for each in verdict.findings if not each.accepted]
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
        entry("hdfs", "loader", 1, LATER, destination=ROOT, run=1, passages=[landed]),
    ]
    verdict = judged(tmp_path, [said])
    assert [each.words for each in verdict.findings if not each.accepted] == []
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

"""Rows that took the place of an agent's lines: what a loader says of them is held against what the
agent claims, in whichever order the two are said."""

from pathlib import Path

import pytest

from audit.reconciling.findings import FaultKind, State
from tests.audit.audited_ledger import FIRST, judged
from tests.audit.log_entries import (
    OF_THE_LOG,
    TIME,
    agent,
    broker,
    each_order,
    in_orders,
    lines,
    load,
    shipped,
)
from tests.audit.store.said import HOUR, Json, excepted, passage, window

FORGED, LINES = 5, 3  # offsets 0 to 4 are forged, 5 to 7 are the agent's lines


def collided(first: int, events: int, seq: int, kept: int) -> Json:
    times = {"from_time": TIME, "to_time": TIME + 1}
    place = {"leader_epoch": 0, "first": first, "source": "file", "seq": seq, "events": events}
    return OF_THE_LOG | place | {"kept_partition": 0, "kept": kept} | times


def loaded(*collisions: Json) -> Json:
    """The forged events are rows, and the lines are dead letters; all windows add up."""
    dead = window(TIME, FORGED, excepted=[excepted("dead_lettered", LINES)])
    read = passage(0, 0, FORGED + LINES, [dead], runs=[lines(0, FORGED)], leader_epoch=0)
    return load(1, read, collided=list(collisions))


SAID = [
    agent(0, shipped(0, FORGED, LINES)),
    broker(0, (0, FORGED + LINES, TIME, 0)),
    loaded(collided(FORGED, LINES, 0, 0)),
]


@each_order
def test_a_claimed_line_that_became_a_dead_letter_is_missing(tmp_path: Path, order: int) -> None:
    verdict = judged(tmp_path, in_orders(SAID)[order])
    assert verdict.state is State.MISSING
    (finding,) = verdict.findings
    said = (finding.kind, finding.source, finding.seq, finding.events, finding.offset)
    assert said == (FaultKind.MISSING, "file", 0, LINES, FORGED)
    assert finding.words == (
        "host-of-agent: /log/file, events 0 to 2 are not in hdfs://logs: others with their source"
        " and numbers are there instead, from clicks-0, offsets 0 to 2, with other content"
        " (clicks-0, offsets 5 to 7)"
    )


REBUILT = load(
    2,
    passage(
        0,
        0,
        FORGED + LINES,
        [window(TIME, LINES, excepted=[excepted("dead_lettered", FORGED)])],
        runs=[lines(0, LINES)],
        leader_epoch=0,
    ),
    collided=[collided(0, FORGED, 0, FORGED)],
    rebuilt=[
        {
            "topic": OF_THE_LOG["topic"],
            "topic_id": OF_THE_LOG["topic_id"],
            "from_time": FIRST,
            "to_time": FIRST + HOUR,
        }
    ],
)


@pytest.mark.parametrize(
    "said",
    [
        [agent(0, shipped(0, 0, FORGED)), SAID[1], loaded(collided(FORGED, LINES, 0, 0))],
        [*SAID, REBUILT],
    ],
    ids=["of nobody's events", "in an hour that was rebuilt"],
)
def test_dead_letters_that_nobody_misses(tmp_path: Path, said: list[Json]) -> None:
    assert judged(tmp_path, [said]).state is State.COMPLETE

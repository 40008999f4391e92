"""What is judged, and what cannot be."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from audit.config import AuditConfig
from audit.findings import State
from audit.judged_hours import HourVerdict
from audit.judging import Judging
from audit.picture import TopicKey
from audit.standing import ClusterStanding, Standing
from audit.store.database import FILE
from audit.store.store import AuditStore
from harness.waiting import wait_until
from ledger.reading import LedgerPositions
from tests.audit.store.said import (
    BEGIN,
    CLUSTER,
    HOUR,
    MINUTE,
    TOPIC,
    TOPIC_ID,
    body,
    entry,
    passage,
    window,
)

SPOILT, OTHER = TopicKey(CLUSTER, TOPIC, TOPIC_ID), TopicKey(CLUSTER, "views", TOPIC_ID)
AS_OF = {CLUSTER: BEGIN + HOUR}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AuditStore]:
    opened = AuditStore.open(tmp_path)
    shipped = passage(0, 0, 10, [window(BEGIN, 10)])
    said = [
        entry(
            "agent", "a", 0, BEGIN + MINUTE, passages=[shipped, shipped | {"topic": OTHER.topic}]
        ),
        entry("operator", "o", 0, BEGIN, accepted=[{"topic": TOPIC, "partition": 0}]),
    ]
    opened.fold(CLUSTER, body(said), LedgerPositions())
    yield opened
    opened.close()


def accept(store: AuditStore, statement: bytes) -> None:
    """Something that nobody foresaw stands in the table, or no more."""
    with closing(sqlite3.connect(store.directory / FILE)) as connection:
        connection.execute("UPDATE accepted SET statement = ?", (statement,))
        connection.commit()


def statement(store: AuditStore) -> bytes:
    with closing(sqlite3.connect(store.directory / FILE)) as connection:
        ((found,),) = connection.execute("SELECT statement FROM accepted").fetchall()
    return bytes(found)


def test_a_topic_that_cannot_be_judged_keeps_no_other_waiting(store: AuditStore) -> None:
    good = statement(store)
    accept(store, b"{")
    said: list[HourVerdict] = []
    with closing(store.reading()) as reading:
        judging = Judging(reading, AuditConfig(data_dir=str(store.directory)))
        until(lambda: _judged(judging, said) == {OTHER} and judging.failing == (SPOILT,))
        accept(store, good)
        judging.sweep()
        until(lambda: _judged(judging, said) == {OTHER, SPOILT})
        assert not judging.failing


def until(condition: Callable[[], bool]) -> None:
    wait_until(condition, within=20, what="it is judged")


def _judged(judging: Judging, said: list[HourVerdict]) -> set[TopicKey]:
    judging.judge(AS_OF, said.extend)
    return {each.judged.key for each in said}


def test_an_entry_that_is_missing_of_quiet_hours_is_in_the_first(tmp_path: Path) -> None:
    """Nothing happened in that hour, so that nobody has it judged but the finding itself."""
    later = BEGIN + 3 * HOUR
    windows = [(0, BEGIN), (10, later)]
    events = [passage(0, first, 10, [window(start, 10)]) for first, start in windows]
    agents = [
        (0, BEGIN, events[:1]),
        (1, BEGIN + HOUR, []),
        (3, BEGIN + 2 * HOUR, []),
        (4, later, events[1:]),
    ]
    said = [
        entry("agent", "a", seq, time + MINUTE, passages=passages) for seq, time, passages in agents
    ]
    said.append(entry("broker", "b", 0, later + MINUTE, passages=events))
    found: dict[int, HourVerdict] = {}
    with (
        closing(AuditStore.open(tmp_path, grace_millis=0)) as store,
        closing(store.reading()) as reading,
    ):
        store.fold(CLUSTER, body(said), LedgerPositions())
        judging = Judging(reading, AuditConfig(data_dir=str(tmp_path)))

        def judged() -> bool:
            judging.judge(
                {CLUSTER: later + HOUR},
                lambda hours: found.update((each.judged.hour, each) for each in hours),
            )
            return not judging.is_behind({CLUSTER})

        until(judged)
    states = {hour: each.judged.state for hour, each in found.items()}
    assert states.pop(BEGIN + 2 * HOUR) == "complete", "it ends there, where nothing happened"
    assert states == {BEGIN: "complete", BEGIN + HOUR: "missing", later: "complete"}
    assert found[BEGIN + HOUR].judged.findings == 1


def test_it_is_said() -> None:
    standing = Standing({CLUSTER: ClusterStanding(read=True)})
    standing.unjudged = (SPOILT, OTHER)
    (notice,) = standing.notices()
    assert notice == "clicks of local and 1 more cannot be judged: the audit's log says why"


def test_all_hours_that_a_hole_is_about_are_judged_again(tmp_path: Path) -> None:
    """Another agent's hour lies within it, and was complete when the hole came to be known."""
    store = AuditStore.open(tmp_path / "other")
    first = BEGIN - BEGIN % HOUR

    def shipped(agent: str, seq: int, hour: int) -> None:
        time = first + hour * HOUR + MINUTE
        at = passage(0, hour * 10, 10, [window(time, 10)])
        beat = {"until": first + 9 * HOUR, "topics": [TOPIC]}
        said = entry("agent", agent, seq, time, passages=[at], heartbeats=[beat])
        touched = store.fold(CLUSTER, body([said]), LedgerPositions())
        judging.touch(touched.hours)

    said: list[HourVerdict] = []
    as_of = {CLUSTER: first + 3 * HOUR}

    def state(hour: int) -> str:
        judging.judge(as_of, said.extend)
        found = [each.judged.state for each in said if each.judged.hour == first + hour * HOUR]
        return found[-1] if found else ""

    try:
        with closing(store.reading()) as reading:
            judging = Judging(reading, AuditConfig(data_dir=str(store.directory)))
            shipped("a", 0, 0)
            shipped("b", 0, 1)
            until(lambda: state(1) == State.COMPLETE)
            shipped("a", 2, 2)
            until(lambda: bool(state(2)))
            assert state(1) == State.COMPLETE
            judging.sweep()
            until(lambda: state(1) == State.MISSING)
    finally:
        store.close()

"""Which hours are complete, by what agents have said and where logs ended afterwards."""

from collections.abc import Mapping

import pytest

from ledger.agents import Agents, AgentSaid, Beat, HostRetired
from loader.hours.completeness import (
    MOST_NAMES,
    Complete,
    HourVerdict,
    TopicEnd,
    Waiting,
    Watermarks,
)
from loader.manifests import PartitionState, TopicState
from loader.tables import HOUR_MILLIS, Hour

HOUR = Hour(100 * HOUR_MILLIS)
END = HOUR + HOUR_MILLIS
SETTLE = 900_000


def agents(*untils: int, topics: str = "x") -> Agents:
    found = Agents()
    for at, until in enumerate(untils):
        beats = (Beat(until, frozenset(topics.split())),)
        found.take(AgentSaid(f"a{at}", f"web-{at}", 0, END, beats))
    return found


def loaded(*offsets: int, topic: str = "x", topic_id: str = "1") -> TopicState:
    partitions = tuple(
        PartitionState(partition=at, next_offset=offset) for at, offset in enumerate(offsets)
    )
    return TopicState(topic=topic, cluster="dc1", topic_id=topic_id, partitions=partitions)


def watermarks(
    who: Agents,
    *,
    now: int = END,
    ends: Mapping[str, TopicEnd | None] | None = None,
    settle: int | None = SETTLE,
) -> Watermarks:
    return Watermarks(who, ends or {"x": TopicEnd("1", {0: 10})}, now, settle)


def judge(
    who: Agents,
    *topics: TopicState,
    now: int = END,
    settle: int | None = SETTLE,
    events: bool = True,
) -> HourVerdict:
    judging = watermarks(who, now=now, settle=settle)
    fed = {each.topic: each for each in topics or (loaded(10),)}
    return judging.judge(fed, HOUR, events=events)


def test_an_hour_is_complete_when_all_agents_are_past_its_end() -> None:
    assert judge(agents(END, END + 1)) == Complete("agents")
    assert judge(agents(END, END - 1)) == Waiting("agents on web-1", ("web-1",))


def test_what_agents_promised_must_have_been_read() -> None:
    waiting = Waiting("the load, which has not read x to its end")
    assert judge(agents(END), loaded(9)) == waiting
    assert judge(agents(END), loaded(11)) == Complete("agents")
    assert judge(agents(END), loaded()) == waiting


def test_every_partition_must_have_been_read() -> None:
    marks = watermarks(agents(END), ends={"x": TopicEnd("1", {0: 10, 1: 5, 2: 0})})
    for offset, kind in ((4, Waiting), (5, Complete)):
        verdict = marks.judge({"x": loaded(10, offset)}, HOUR, events=True)
        assert isinstance(verdict, kind)


def test_of_another_topic_of_that_name_nothing_was_read() -> None:
    assert isinstance(judge(agents(END), loaded(10, topic_id="2")), Waiting)
    assert isinstance(judge(agents(END), loaded(10, topic_id="")), Complete)


@pytest.mark.parametrize("state", [loaded(9), None])
def test_a_topic_that_is_not_there_is_waited_for(state: TopicState | None) -> None:
    """It was out of sight for a moment, or is still to come; and else it is no table's any more."""
    marks = watermarks(agents(END), ends={"x": None})
    verdict = marks.judge({"x": state}, HOUR, events=True)
    assert isinstance(verdict, Waiting)
    assert "topic x, which is not there" in verdict.missing


def test_a_partition_that_is_out_of_sight_is_waited_for() -> None:
    assert isinstance(judge(agents(END), loaded(10, 0)), Waiting)


def test_a_topic_that_was_never_read_is_waited_for_unless_it_is_empty() -> None:
    for offset, kind in ((1, Waiting), (0, Complete)):
        ends = {"x": TopicEnd("1", {0: 10}), "y": TopicEnd("2", {0: offset})}
        marks = watermarks(agents(END, topics="x y"), ends=ends)
        verdict = marks.judge({"x": loaded(10), "y": None}, HOUR, events=True)
        assert isinstance(verdict, kind)


@pytest.mark.parametrize(("settle", "events"), [(SETTLE, True), (SETTLE, False), (None, False)])
def test_a_topic_that_nobody_ships_to_is_given_time(settle: int | None, events: bool) -> None:
    """As long as was said; without that 15 minutes, if its rows are no events."""

    def at(now: int, who: Agents, *topics: TopicState) -> HourVerdict:
        return judge(who, *topics, now=now, settle=settle, events=events)

    others = agents(END, topics="y")
    assert at(END + SETTLE - 1, others) == Waiting("x: time to settle, as no agent writes to it")
    assert at(END + SETTLE, others) == Complete("time to settle (900 s)")
    assert isinstance(at(END + SETTLE, Agents(), loaded(9)), Waiting)


def test_events_that_nobody_is_known_to_ship_are_waited_for() -> None:
    """They may come from a cluster whose ledger is not read here, where somebody is behind."""
    verdict = judge(agents(END, topics="y"), now=END + 1000 * SETTLE, settle=None)
    assert isinstance(verdict, Waiting)
    assert "none is known to write to x" in verdict.missing
    assert "`completeness.settle`" in verdict.missing
    assert judge(agents(END), settle=None) == Complete("agents")


def test_who_is_retired_is_not_waited_for() -> None:
    who = agents(END, HOUR + 5)
    who.take(HostRetired("web-1", "", HOUR + 6, END))
    assert isinstance(judge(who), Waiting)
    who.take(HostRetired("web-1", "", HOUR + 5, END + 1))
    assert judge(who) == Complete("agents")


def test_where_all_are_retired_there_is_time_to_settle() -> None:
    who = agents(HOUR)
    who.take(HostRetired("web-0", "", HOUR, END))
    assert isinstance(judge(who, now=END), Waiting)
    for settle in (SETTLE, None):
        done = judge(who, now=END + SETTLE, settle=settle)
        assert done == Complete("time to settle (900 s)")


def test_dead_letters_are_on_the_watermark_of_their_topic() -> None:
    ends = {"x.dead": TopicEnd("1", {0: 10})}
    for until, kind in ((END - 1, Waiting), (END, Complete)):
        marks = watermarks(agents(until), ends=ends)
        verdict = marks.judge({"x.dead": loaded(10, topic="x.dead")}, HOUR, events=True)
        assert isinstance(verdict, kind)


def test_a_table_is_complete_when_all_its_topics_are() -> None:
    who = agents(END, END - 1)
    who.take(AgentSaid("b", "db-0", 0, END, (Beat(HOUR, frozenset({"y"})),)))
    marks = watermarks(who, ends={"x": TopicEnd("1", {0: 10}), "y": TopicEnd("1", {0: 10})})
    verdict = marks.judge({"x": loaded(10), "y": loaded(10, topic="y")}, HOUR, events=True)
    assert verdict == Waiting("agents on web-1; agents on db-0", ("web-1", "db-0"))


def test_few_are_named_in_words_and_many_by_name() -> None:
    verdict = judge(agents(*[HOUR] * (MOST_NAMES + 5)))
    assert isinstance(verdict, Waiting)
    assert verdict.missing == f"agents on web-0, web-1, web-10 and {MOST_NAMES + 2} more"
    assert len(verdict.names) == MOST_NAMES


def test_the_same_is_said_while_the_same_are_waited_for() -> None:
    """However far they have come."""
    assert judge(agents(HOUR, END - 5, END)) == judge(agents(END - 7, HOUR + 1, END + 1))

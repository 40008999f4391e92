"""Which hours are complete, by what agents or the audit say and by where logs ended afterwards."""

from collections.abc import Mapping

import pytest

from ledger.agents import AgentEntry, Agents, Beat, HostRetired
from loader.hours.audit import Question
from loader.hours.completeness import (
    MOST_NAMES,
    AuditGate,
    Complete,
    Completeness,
    HourVerdict,
    TopicEnd,
    Waiting,
    Watermarks,
)
from loader.values.manifests import PartitionState, TopicState
from loader.values.tables import HOUR_MILLIS, Hour
from tests.loader.hours.manifests import hour

HOUR = Hour(100 * HOUR_MILLIS)
END = HOUR + HOUR_MILLIS
SETTLE = 900_000


def agents(*untils: int, topics: str = "x") -> Agents:
    found = Agents()
    for at, until in enumerate(untils):
        beats = (Beat(until, frozenset(topics.split())),)
        found.take(AgentEntry(f"a{at}", f"web-{at}", 0, END, beats))
    return found


def loaded(*offsets: int, topic: str = "x", topic_id: str = "1") -> TopicState:
    partitions = tuple(
        PartitionState(partition=at, next_offset=offset) for at, offset in enumerate(offsets)
    )
    return TopicState(topic=topic, cluster="dc1", topic_id=topic_id, partitions=partitions)


def judge(
    who: Agents,
    *topics: TopicState | None,
    now: int = END,
    settle: int | None = SETTLE,
    events: bool = True,
    ends: Mapping[str, TopicEnd | None] | None = None,
) -> HourVerdict:
    """Of topics that were loaded; of x, its ten records, if none is given."""
    marks = Watermarks(who, ends or {"x": TopicEnd("1", {0: 10})}, now, settle)
    known = topics or (loaded(10),)
    fed = {each.topic if each else name: each for name, each in zip("xyz", known, strict=False)}
    return marks.judge(fed, HOUR, events=events)


def is_complete(verdict: HourVerdict) -> bool:
    assert isinstance(verdict, Complete | Waiting)
    return isinstance(verdict, Complete)


def test_an_hour_is_complete_when_all_agents_are_past_its_end() -> None:
    assert judge(agents(END, END + 1)) == Complete("agents")
    assert judge(agents(END, END - 1)) == Waiting("agents on web-1", ("web-1",))


def test_what_agents_promised_must_have_been_read() -> None:
    waiting = Waiting("the load, which has not read x to its end")
    assert judge(agents(END), loaded(9)) == waiting
    assert judge(agents(END), loaded(11)) == Complete("agents")
    assert judge(agents(END), loaded()) == waiting


def test_every_partition_must_have_been_read() -> None:
    ends = {"x": TopicEnd("1", {0: 10, 1: 5, 2: 0})}
    marks = Watermarks(agents(END), ends, END, SETTLE)
    for offset, complete in ((4, False), (5, True)):
        verdict = marks.judge({"x": loaded(10, offset)}, HOUR, events=True)
        assert is_complete(verdict) is complete
    # One that is out of sight is waited for.
    assert not is_complete(judge(agents(END), loaded(10, 0)))


def test_of_another_topic_of_that_name_nothing_was_read() -> None:
    assert not is_complete(judge(agents(END), loaded(10, topic_id="2")))
    assert is_complete(judge(agents(END), loaded(10, topic_id="")))


@pytest.mark.parametrize("state", [loaded(9), None])
def test_a_topic_that_is_not_there_is_waited_for(state: TopicState | None) -> None:
    """It was out of sight for a moment, or is still to come; and else it is no table's any more."""
    verdict = judge(agents(END), state, ends={"x": None})
    assert isinstance(verdict, Waiting)
    assert "topic x, which does not exist" in verdict.missing


@pytest.mark.parametrize(("end", "complete"), [(1, False), (0, True)])
def test_a_topic_that_was_never_read_is_waited_for_unless_it_is_empty(
    end: int, complete: bool
) -> None:
    ends = {"x": TopicEnd("1", {0: 10}), "y": TopicEnd("2", {0: end})}
    assert is_complete(judge(agents(END, topics="x y"), loaded(10), None, ends=ends)) is complete


@pytest.mark.parametrize(("settle", "events"), [(SETTLE, True), (SETTLE, False), (None, False)])
def test_a_topic_that_nobody_ships_to_is_given_time(settle: int | None, events: bool) -> None:
    """As long as was said; without that 15 minutes, if its rows are no events."""

    def at(now: int, who: Agents, *topics: TopicState) -> HourVerdict:
        return judge(who, *topics, now=now, settle=settle, events=events)

    others = agents(END, topics="y")
    assert at(END + SETTLE - 1, others) == Waiting("x: settle time, since no agent writes to it")
    assert at(END + SETTLE, others) == Complete("settle time (900 s)")
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
        assert done == Complete("settle time (900 s)")


@pytest.mark.parametrize(("until", "complete"), [(END - 1, False), (END, True)])
def test_dead_letters_are_on_the_watermark_of_their_topic(until: int, complete: bool) -> None:
    ends = {"x.dead": TopicEnd("1", {0: 10})}
    verdict = judge(agents(until), loaded(10, topic="x.dead"), ends=ends)
    assert is_complete(verdict) is complete


def test_a_table_is_complete_when_all_its_topics_are() -> None:
    who = agents(END, END - 1)
    who.take(AgentEntry("b", "db-0", 0, END, (Beat(HOUR, frozenset({"y"})),)))
    ends = dict.fromkeys("xy", TopicEnd("1", {0: 10}))
    verdict = judge(who, loaded(10), loaded(10, topic="y"), ends=ends)
    assert verdict == Waiting("agents on web-1; agents on db-0", ("web-1", "db-0"))


def test_few_are_named_in_words_and_many_by_name() -> None:
    verdict = judge(agents(*[HOUR] * (MOST_NAMES + 5)))
    assert isinstance(verdict, Waiting)
    assert verdict.missing == f"agents on web-0, web-1, web-10 and {MOST_NAMES + 2} more"
    assert len(verdict.names) == MOST_NAMES


def test_the_same_is_said_while_the_same_are_waited_for() -> None:
    """However far they have come."""
    assert judge(agents(HOUR, END - 5, END)) == judge(agents(END - 7, HOUR + 1, END + 1))


GATE_NOW = hour(1)
ENDS = {"a": TopicEnd("1", {0: 10, 1: 0}), "b": TopicEnd("", {0: 5})}


def gate(
    answers: Mapping[Question, HourVerdict], now: int = GATE_NOW, settle_millis: int | None = None
) -> Completeness:
    return AuditGate(answers, ENDS, now, settle_millis)


READ = {"a": loaded(10, topic="a", topic_id=""), "b": loaded(7, topic="b", topic_id="")}
ANSWERS: dict[Question, HourVerdict] = {
    ("a", hour(0)): Complete("audit: agents"),
    ("b", hour(0)): Complete("audit: brokers"),
    ("a", hour(1)): Complete("audit: agents"),
}


def test_complete_once_it_is_read() -> None:
    verdict = gate(ANSWERS).judge(READ, hour(0), events=True)
    assert verdict == Complete("audit: agents; audit: brokers")
    behind = {**READ, "a": loaded(9, topic="a", topic_id="")}
    assert gate(ANSWERS).judge(behind, hour(0), events=True) == Waiting(
        "the load, which has not read a to its end"
    )
    missing = gate(ANSWERS).judge({**READ, "b": None}, hour(0), events=True)
    assert missing == Waiting("the load, which has not read b to its end")


def test_all_topics_are_waited_for() -> None:
    answers = {
        **ANSWERS,
        ("a", hour(0)): Waiting("agents on web-1", ("web-1",)),
        ("b", hour(0)): Waiting("12 events, missing at the brokers", ("web-2", "web-1")),
    }
    assert gate(answers).judge(READ, hour(0), events=True) == Waiting(
        "agents on web-1; 12 events, missing at the brokers", ("web-1", "web-2")
    )


def test_hours_that_were_not_asked_about_are_left_as_they_are() -> None:
    assert gate(ANSWERS).judge(READ, hour(1), events=True) is None
    assert gate({}).judge(READ, hour(0), events=True) is None


def test_time_closes_hours_of_other_records() -> None:
    soon, late = GATE_NOW + 899_999, GATE_NOW + 900_000
    waiting = gate({}, soon).judge(READ, hour(0), events=False)
    assert isinstance(waiting, Waiting)
    assert waiting.missing.startswith("a: settle time")
    assert gate({}, late).judge(READ, hour(0), events=False) == Complete("settle time (900 s)")
    settled = gate(ANSWERS, GATE_NOW + HOUR_MILLIS, HOUR_MILLIS).judge(READ, hour(0), events=False)
    assert settled == Complete("settle time (3600 s)")

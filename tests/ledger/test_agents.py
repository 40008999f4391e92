"""What agents say, folded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.agents import LEFT_MILLIS, AgentEntry, Agents, Beat, Behind, HostRetired


def beat(until: int, *topics: str) -> Beat:
    return Beat(until, frozenset(topics))


def said(agent: str, seq: int, *beats: Beat, time: int = 0) -> AgentEntry:
    return AgentEntry(agent, f"host-of-{agent}", seq, time or seq, beats)


def folded(*entries: AgentEntry | HostRetired) -> Agents:
    agents = Agents()
    for each in entries:
        agents.take(each)
    return agents


def until(agents: Agents, topic: str) -> dict[str, int]:
    return {each.agent: each.until for each in expected(agents, topic)}


def expected(agents: Agents, topic: str) -> list[Behind]:
    return [
        each for topics, all_ in agents.waited_for().items() if topic in topics for each in all_
    ]


def test_a_heartbeat_that_names_no_topics_is_about_those_named_before() -> None:
    agents = folded(said("a", 0, beat(10, "x", "y")), said("a", 1, beat(20)))
    assert until(agents, "x") == until(agents, "y") == {"a": 20}
    assert not until(agents, "z")


def test_topics_can_be_at_different_times() -> None:
    agents = folded(said("a", 0, beat(10, "x"), beat(20, "y")))
    assert (until(agents, "x"), until(agents, "y")) == ({"a": 10}, {"a": 20})
    agents.take(said("a", 1, beat(30)))
    assert until(agents, "x") == until(agents, "y") == {"a": 30}


def test_the_latest_counts_even_if_it_says_less() -> None:
    """As when a clock was set back."""
    agents = folded(said("a", 0, beat(5000, "x")), said("a", 1, beat(10)))
    assert until(agents, "x") == {"a": 10}


def test_an_agent_without_a_time_yet_is_waited_for_where_it_was() -> None:
    agents = folded(said("a", 0, beat(10, "x")), said("a", 1, beat(0, "x", "y")))
    assert until(agents, "x") == {"a": 10}
    assert until(agents, "y") == {"a": 0}
    agents.take(said("a", 2, beat(0)))
    assert until(agents, "x") == {"a": 10}


def test_a_topic_that_is_not_named_again_is_waited_for_a_day() -> None:
    agents = folded(said("a", 0, beat(10, "x", "y")), said("a", 1, beat(20, "y"), time=100))
    assert (until(agents, "x"), until(agents, "y")) == ({"a": 10}, {"a": 20})
    agents.take(said("a", 2, beat(30), time=99 + LEFT_MILLIS))
    assert until(agents, "x") == {"a": 10}
    agents.take(said("a", 3, beat(40), time=100 + LEFT_MILLIS))
    assert not until(agents, "x")


def test_a_topic_that_is_named_again_is_not_left() -> None:
    agents = folded(said("a", 0, beat(10, "x", "y")), said("a", 1, beat(20, "y")))
    agents.take(said("a", 2, beat(30, "x", "y")))
    assert until(agents, "x") == {"a": 30}
    assert not agents.by_id["a"].left


def test_those_behind_come_first() -> None:
    agents = folded(said("a", 0, beat(30, "x")), said("b", 0, beat(10, "x")))
    assert expected(agents, "x") == [Behind(10, "host-of-b", "b"), Behind(30, "host-of-a", "a")]


def test_who_is_not_heard_of_is_forgotten() -> None:
    agents = folded(said("a", 0, beat(1, "x"), time=100), said("b", 0, beat(1, "x"), time=200))
    agents.take(HostRetired("c", "", 0, 199))
    agents.forget(200)
    assert until(agents, "x") == {"b": 1}
    assert not agents.retired


def test_who_is_heard_of_again_is_not_forgotten() -> None:
    agents = folded(said("a", 0, beat(1, "x"), time=100), said("a", 1, beat(2), time=200))
    agents.forget(200)
    assert until(agents, "x") == {"a": 2}


BEAT_AT_1 = said("a", 0, beat(50, "x"), time=1)


@pytest.mark.parametrize(
    ("said_", "required"),
    [
        pytest.param([BEAT_AT_1], 90, id="nobody is retired"),
        pytest.param([BEAT_AT_1, HostRetired("host-of-a", "", 60, 1)], 60, id="nothing later"),
        pytest.param([HostRetired("host-of-a", "", 60, 0), BEAT_AT_1], 90, id="it is heard again"),
        pytest.param([BEAT_AT_1, HostRetired("host-of-a", "other", 60, 9)], 90, id="another agent"),
        pytest.param([BEAT_AT_1, HostRetired("host-of-a", "a", 70, 9)], 70, id="one agent"),
        pytest.param(
            [
                BEAT_AT_1,
                HostRetired("host-of-a", "other", 60, 9),
                HostRetired("host-of-a", "a", 70, 9),
            ],
            70,
            id="one of two agents",
        ),
        pytest.param(
            [BEAT_AT_1, HostRetired("host-of-a", "", 80, 10), HostRetired("host-of-a", "", 70, 9)],
            80,
            id="the latest retirement counts",
        ),
    ],
)
def test_how_long_a_host_is_expected(said_: list[AgentEntry | HostRetired], required: int) -> None:
    agents = folded(*said_)
    (behind,) = expected(agents, "x")
    assert agents.required(behind, 90) == required
    assert agents.required(behind, 55) == 55


entries = st.builds(
    lambda agent, seq, beats: said(agent, seq, *beats, time=seq),
    st.sampled_from("ab"),
    st.integers(0, 20),
    st.lists(
        st.builds(Beat, st.integers(0, 9), st.frozensets(st.sampled_from("xyz"))),
        min_size=1,
        max_size=2,
    ),
)


@given(st.lists(entries, max_size=12), st.data())
def test_entries_of_an_agent_may_be_repeated(all_: list[AgentEntry], data: st.DataObject) -> None:
    """Whatever comes again after it was there, however often, in whichever order."""
    all_ = list({(each.agent, each.seq): each for each in all_}.values())
    all_.sort(key=lambda each: each.seq)
    repeated = [
        again
        for at, each in enumerate(all_)
        for again in (each, *data.draw(st.lists(st.sampled_from(all_[: at + 1]), max_size=2)))
    ]
    assert folded(*repeated) == folded(*all_)

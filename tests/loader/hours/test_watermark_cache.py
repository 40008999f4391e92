"""What was read of the ledger, kept in a file."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.agents import Agents, Beat, HeardAgent, HostRetired, LeftTopics
from ledger.reading import LedgerPositions
from loader.hours.ledger_reading import LedgerRead, cache_path, from_bytes, to_bytes

millis = st.integers(-1, 2**53)
topics = st.frozensets(st.text(max_size=4), max_size=3)
agents = st.builds(
    HeardAgent,
    host=st.text(max_size=4),
    seq=millis,
    heard=millis,
    shipped=st.lists(st.builds(Beat, millis, topics), max_size=2).map(tuple),
    left=st.lists(st.builds(LeftTopics, millis, topics, millis), max_size=2).map(tuple),
)
retired = st.builds(HostRetired, st.text(max_size=2), st.text(max_size=2), millis, millis)
read = st.builds(
    LedgerRead,
    st.builds(
        LedgerPositions,
        st.text(max_size=3),
        st.text(max_size=3),
        st.dictionaries(st.integers(0, 5), st.integers(0, 2**53)),
        st.dictionaries(st.integers(0, 5), st.integers(0, 2**31 - 1)),
    ),
    st.builds(
        Agents,
        st.dictionaries(st.text(max_size=3), agents, max_size=4),
        st.lists(retired, max_size=3).map(lambda all_: {(r.host, r.agent): r for r in all_}),
    ),
)

POSITIONS = LedgerPositions("c", "t", {0: 5}, {0: 1})
ONE = LedgerRead(POSITIONS, Agents({"a": HeardAgent("h", 1, 2, (Beat(3, frozenset("x")),))}))


@given(read)
def test_what_is_kept_is_read_again(read: LedgerRead) -> None:
    assert from_bytes(to_bytes(read)) == read


def test_what_is_damaged_is_nothing() -> None:
    """Cut anywhere, of another version, or with a set of topics that is not there."""
    whole = to_bytes(ONE)
    assert all(from_bytes(whole[:size]) is None for size in range(len(whole)))
    for key, value in (("version", 2), ("topics", []), ("agents", [["a"]])):
        assert from_bytes(json.dumps(json.loads(whole) | {key: value}).encode()) is None


def test_what_was_kept_without_epochs_is_read() -> None:
    old = {key: value for key, value in json.loads(to_bytes(ONE)).items() if key != "epochs"}
    found = from_bytes(json.dumps(old).encode())
    assert found is not None
    assert found.positions == LedgerPositions("c", "t", {0: 5})


def test_a_large_fleet_takes_little_room() -> None:
    """Ten thousand agents with a hundred topics each."""
    topics = frozenset(f"a-topic-with-a-name-{number}" for number in range(100))
    fleet = {
        f"{number:032x}": HeardAgent(f"web-{number:05}.example.com", number, 1, (Beat(2, topics),))
        for number in range(10_000)
    }
    size = len(to_bytes(LedgerRead(POSITIONS, Agents(fleet))))
    assert size < 1_000_000


@pytest.mark.parametrize(
    ("cluster_id", "name"),
    [("", "local"), ("MkU3OEVBNTcwNTJENDM2Qk-_", "MkU3OEVBNTcwNTJENDM2Qk-_"), ("a/../b", "a____b")],
)
def test_each_cluster_has_its_own(cluster_id: str, name: str) -> None:
    """Whatever it is called in the configuration, if it has an id."""
    assert cache_path(cluster_id, "local") == f"_penstock/~watermarks/{name}.json"

"""Of what agents and operators say, what counts, and that nothing that counts is passed over."""

from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.agents import AgentEntry, Agents, Beat, HostRetired, Statement
from ledger.columns import no_entries
from ledger.entries import LedgerEntries
from ledger.heartbeats import statements
from schemas.event_schemas import LEDGER, built_in
from tests.ledger.said import batch_of, entry, retirement


def said_by(entries: Iterable[dict[str, Any]]) -> list[Statement]:
    gathering = LedgerEntries({7: built_in(LEDGER)}.get)
    gathering.add(batch_of(entries))
    return statements(gathering.take().body)


def folded(said: Iterable[Statement]) -> Agents:
    agents = Agents()
    for each in said:
        agents.take(each)
    return agents


beats = st.tuples(st.integers(0, 3), st.lists(st.sampled_from(["x", "y", "ž"]), max_size=2))
journals = st.lists(st.tuples(st.sampled_from("abc"), st.lists(beats, max_size=2)), max_size=30)


@settings(max_examples=25)
@given(journals, st.sets(st.integers(0, 29)))
def test_those_that_count_say_what_all_say(
    journals: list[tuple[str, list[tuple[int, list[str]]]]], again: set[int]
) -> None:
    """Whatever comes a second time, later."""
    seqs: dict[str, int] = {}
    entries = []
    for agent, mine in journals:
        seqs[agent] = seqs.get(agent, -1) + 1
        entries.append(entry(agent, seqs[agent], *mine))
    entries += [entries[at] for at in again if at < len(entries)]
    assert folded(said_by(entries)) == folded(each for one in entries for each in said_by([one]))


def test_only_what_counts_becomes_a_value() -> None:
    """Of agents that name no topics the last entry."""
    mine = [entry("a", seq, (seq + 1, [])) for seq in range(40)]
    yours = [entry("b", seq, (seq + 1, ["x"] if seq == 20 else [])) for seq in range(40)]
    found = said_by([*mine, *yours, entry("c", 0)])
    assert found[0] == AgentEntry("a", "host-of-a", 39, 39 * 60_000, (Beat(40, frozenset()),))
    assert [each.seq for each in found[1:] if isinstance(each, AgentEntry)] == [19, 20, 39]
    assert len(found) == 4


def test_operators_are_listened_to_and_nobody_else_retires_hosts() -> None:
    statement = {"host": "h", "agent": "", "since": 5, "reason": ""}
    entries = [retirement("h", 3, 4), entry("a", 1, retired=[statement])]
    assert said_by(entries) == [HostRetired("h", "", 3, 4)]


def test_no_entries_say_nothing() -> None:
    assert statements(no_entries()) == []


def test_of_a_later_version_nothing_is_understood() -> None:
    statement = {"host": "h", "agent": "", "since": 5, "reason": ""}
    later = [
        entry("a", 0, (60_000, ["x"]), version=2),
        entry("operator-1", 0, tier="operator", retired=[statement], version=2),
    ]
    assert said_by(later) == []

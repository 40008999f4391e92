"""What was read of `_audit` so far, in a small file, so that only what is new is read again. Pure.

    {root}/_penstock/~watermarks/{cluster id}.json

Agents are kept in it for longer than entries are in `_audit`: so it is more than a cache of that.
Where `_audit` is another one than was read, what was read of the former still counts, and the new
one is read from its beginning. Where the file is lost, all that is still there is read anew; agents
who have said nothing since then are not known any more. Of two loaders who write it at once, one
wins; either is true.
"""

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from ledger.agents import Agent, Agents, Beat, HostRetired, Left
from ledger.reading import LedgerPositions
from loader.store.store import PENSTOCK

VERSION: Final = 1

TopicSet = int  # the place of a set of topics in the list of all of them


class _AgentRow(msgspec.Struct, frozen=True, array_like=True):
    id: str
    host: str
    seq: int
    heard: int
    shipped: list[tuple[int, TopicSet]]
    left: list[tuple[int, TopicSet, int]] = []


class _File(msgspec.Struct, frozen=True):
    version: int
    cluster_id: str
    topic_id: str
    offsets: dict[int, int]
    topics: list[list[str]]
    agents: list[_AgentRow]
    retired: list[tuple[str, str, int, int]]
    epochs: dict[int, int] = {}


@dataclass(frozen=True, slots=True)
class LedgerRead:
    """The agents, as of these positions in one `_audit`."""

    positions: LedgerPositions
    agents: Agents


def cache_path(cluster_id: str, cluster: str) -> str:
    """Ids, Kafka's and our own, have letters, digits, `-` and `_`. Where there is none, the name
    that the cluster has been given is all there is."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", cluster_id or cluster)
    return f"{PENSTOCK}/~watermarks/{name}.json"


def to_bytes(read: LedgerRead) -> bytes:
    sets: dict[frozenset[str], TopicSet] = {}

    def number(topics: frozenset[str]) -> TopicSet:
        return sets.setdefault(topics, len(sets))

    rows = [
        _AgentRow(
            name,
            agent.host,
            agent.seq,
            agent.heard,
            [(until, number(topics)) for until, topics in agent.shipped],
            [(until, number(topics), since) for until, topics, since in agent.left],
        )
        for name, agent in read.agents.by_id.items()
    ]
    file = _File(
        VERSION,
        read.positions.cluster_id,
        read.positions.topic_id,
        read.positions.offsets,
        list(map(sorted, sets)),
        rows,
        [(r.host, r.agent, r.since, r.time) for r in read.agents.retired.values()],
        read.positions.epochs,
    )
    return msgspec.json.encode(file)


def from_bytes(data: bytes) -> LedgerRead | None:
    """None if it is damaged, or of another version."""
    try:
        file = msgspec.json.decode(data, type=_File)
        if file.version != VERSION:
            return None
        sets = [frozenset(topics) for topics in file.topics]
        agents = {row.id: _agent(row, sets) for row in file.agents}
    except (msgspec.DecodeError, IndexError):
        return None
    retired = {
        (host, agent): HostRetired(host, agent, *rest) for host, agent, *rest in file.retired
    }
    positions = LedgerPositions(file.cluster_id, file.topic_id, file.offsets, file.epochs)
    return LedgerRead(positions, Agents(agents, retired))


def _agent(row: _AgentRow, sets: list[frozenset[str]]) -> Agent:
    return Agent(
        row.host,
        row.seq,
        row.heard,
        tuple(Beat(until, sets[topics]) for until, topics in row.shipped),
        tuple(Left(until, sets[topics], since) for until, topics, since in row.left),
    )

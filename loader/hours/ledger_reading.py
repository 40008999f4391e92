"""`_audit` read to its end, from where it was read to before; then where topics end.

The order matters: what heartbeats promise lies below ends that are looked up after them. See
completeness.py. Whoever plans a load reads watermarks first.

What was read so far is kept in a small file, so that only what is new is read again:

    {root}/_penstock/~watermarks/{cluster id}.json

Agents are kept in it for longer than entries are in `_audit`: so it is more than a cache of that.
Where `_audit` is another one than was read, what was read of the former still counts, and the new
one is read from its beginning. Where the file is lost, all that is still there is read anew; agents
who have said nothing since then are not known any more. Of two loaders who write it at once, one
wins; either is true.
"""

import logging
import re
import time
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from client.brokers import Brokers
from client.delivery import TopicPartition
from client.offsets import offsets_of
from ground.known_types import known_type
from ledger.agents import Agents, Beat, HeardAgent, HostRetired, LeftTopics
from ledger.heartbeats import said
from ledger.lookup import Lookup, lookup_at
from ledger.names import LEDGER_TOPIC
from ledger.reading import LedgerPositions, LedgerReader, id_of
from loader.config import LoaderConfig
from loader.hours.completeness import TopicEnd, Watermarks
from loader.store.store import PENSTOCK, Store
from schemas.registry_client import RegistryClient
from wire.acls import Operation
from wire.messages.list_offsets import LATEST

VERSION: Final = 1  # of the small file
TopicSet = int  # the place of a set of topics in the list of all of them
_LOG_SECONDS: Final = 10.0
_CHUNK_BYTES: Final = 32 * 1024 * 1024  # the driver has other things to keep
log = logging.getLogger(__name__)


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


class LedgerRead(msgspec.Struct, frozen=True):
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
        file = msgspec.json.decode(data, type=known_type(_File))
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


def _agent(row: _AgentRow, sets: list[frozenset[str]]) -> HeardAgent:
    return HeardAgent(
        row.host,
        row.seq,
        row.heard,
        tuple(Beat(until, sets[topics]) for until, topics in row.shipped),
        tuple(LeftTopics(until, sets[topics], since) for until, topics, since in row.left),
    )


def read_watermarks(
    brokers: Brokers,
    registry: RegistryClient,
    store: Store,
    config: LoaderConfig,
    *,
    topics: Iterable[str],
    now: int,
) -> Watermarks:
    """What agents have said until now, for these topics. Raises what brokers, registry and store
    raise: then no hour can be judged for now."""
    cluster_id = brokers.refresh([LEDGER_TOPIC]).cluster_id or ""
    path = cache_path(cluster_id, config.cluster)
    read = read_ledger(brokers, lookup_at(registry), _cached(store, path))
    read.agents.forget(now - int(config.completeness.silent_agents * 1000))
    store.replace(path, to_bytes(read))
    settle = config.completeness.settle
    settle_millis = None if settle is None else int(settle * 1000)
    return Watermarks(read.agents, topic_ends(brokers, topics), now, settle_millis)


def read_ledger(brokers: Brokers, lookup: Lookup, cached: LedgerRead | None) -> LedgerRead:
    """All that `_audit` says until now, and what was read of it before."""
    cluster_id = brokers.refresh([LEDGER_TOPIC]).cluster_id or ""
    if cached is None or cached.positions.cluster_id != cluster_id:
        cached = LedgerRead(LedgerPositions(cluster_id), Agents())
    positions = cached.positions
    logged = time.monotonic()
    for chunk in LedgerReader(brokers, lookup, chunk_bytes=_CHUNK_BYTES).read(positions):
        if chunk.gap:
            log.warning(
                "entries of the ledger were deleted before they were read here: agents that have"
                " said nothing since then are not known, and not waited for"
            )
        for each in said(chunk.body):
            cached.agents.take(each)
        positions = chunk.positions
        if chunk.to_come and time.monotonic() - logged > _LOG_SECONDS:
            logged = time.monotonic()
            log.info("reading the ledger, which has more entries=%d", chunk.to_come)
    return LedgerRead(positions, cached.agents)


def topic_ends(brokers: Brokers, topics: Iterable[str]) -> Mapping[str, TopicEnd | None]:
    """Where they end; None for those that do not exist."""
    wanted = sorted(set(topics))
    known = brokers.refresh(wanted)
    there = {name: brokers.topic(name, Operation.READ) for name in wanted if known.has(name)}
    targets = [
        TopicPartition(name, each.index)
        for name, topic in there.items()
        for each in topic.partitions
    ]
    offsets: dict[str, dict[int, int]] = {name: {} for name in there}
    for target, offset in offsets_of(brokers, dict.fromkeys(targets, LATEST)).items():
        offsets[target.topic][target.partition] = offset
    ends: dict[str, TopicEnd | None] = dict.fromkeys(wanted)
    return ends | {name: TopicEnd(id_of(topic), offsets[name]) for name, topic in there.items()}


def _cached(store: Store, path: str) -> LedgerRead | None:
    data = store.read(path)
    if data is None:
        return None
    found = from_bytes(data)
    if found is None:
        log.warning("what was kept of the ledger cannot be read; the ledger is read anew")
    return found

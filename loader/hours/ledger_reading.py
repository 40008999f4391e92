"""Reads `_audit` from the position of the last read to its end, and then looks up the topics' ends.

The order matters: what heartbeats guarantee lies below ends that are looked up after them; see
completeness.py. So a load reads watermarks before it is planned.

A small file keeps the result, so that each load reads only new entries:

    {root}/_penstock/~watermarks/{cluster id}.json

It remembers agents for longer than `_audit` keeps entries, so it is more than a cache. If `_audit`
was recreated, the former one's content still counts, and the new one is read from its beginning.
If the file is lost, all of `_audit` is read again, and agents without an entry in it are unknown.
If two loaders write the file at once, one of them wins; both versions are correct.
"""

import logging
import re
import time
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from client.connection.brokers import Brokers
from client.producing.delivery import TopicPartition
from client.reading.offsets import offsets_of
from ground.known_types import known_type
from ledger.agents import Agents, Beat, HeardAgent, HostRetired, LeftTopics
from ledger.heartbeats import statements
from ledger.lookup import Lookup, lookup_at
from ledger.names import LEDGER_TOPIC
from ledger.reading import LedgerPositions, LedgerReader, id_of
from loader.config import LoaderConfig
from loader.hours.completeness import TopicEnd, Watermarks
from loader.store.store import PENSTOCK, Store
from schemas.registry_client import RegistryClient
from wire.acls import Operation
from wire.messages.list_offsets import LATEST

VERSION: Final = 1  # of the file
TopicSet = int  # the index of a set of topics in the list of all of them
_LOG_SECONDS: Final = 10.0
_CHUNK_BYTES: Final = 32 * 1024 * 1024  # bounds the driver's memory
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
    """The agents according to one `_audit`, read up to these positions."""

    positions: LedgerPositions
    agents: Agents


def cache_path(cluster_id: str, cluster: str) -> str:
    """The file's path. Ids, Kafka's and Penstock's, have letters, digits, `-` and `_`. The file of
    a cluster without an id is named after its configured name."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", cluster_id or cluster)
    return f"{PENSTOCK}/~watermarks/{name}.json"


def to_bytes(read: LedgerRead) -> bytes:
    topic_sets: dict[frozenset[str], TopicSet] = {}

    def number(topics: frozenset[str]) -> TopicSet:
        return topic_sets.setdefault(topics, len(topic_sets))

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
        list(map(sorted, topic_sets)),
        rows,
        [
            (host_retired.host, host_retired.agent, host_retired.since, host_retired.time)
            for host_retired in read.agents.retired.values()
        ],
        read.positions.epochs,
    )
    return msgspec.json.encode(file)


def from_bytes(data: bytes) -> LedgerRead | None:
    """The content, or None if it is damaged or of another version."""
    try:
        file = msgspec.json.decode(data, type=known_type(_File))
        if file.version != VERSION:
            return None
        topic_sets = [frozenset(topics) for topics in file.topics]
        agents = {row.id: _agent(row, topic_sets) for row in file.agents}
    except (msgspec.DecodeError, IndexError):
        return None
    retired_hosts = {
        (host, agent): HostRetired(host, agent, *rest) for host, agent, *rest in file.retired
    }
    positions = LedgerPositions(file.cluster_id, file.topic_id, file.offsets, file.epochs)
    return LedgerRead(positions, Agents(agents, retired_hosts))


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
    """The watermarks of these topics, from everything that agents have reported. Raises errors of
    the brokers, the registry and the store: without watermarks, no hour can be judged."""
    cluster_id = brokers.refresh([LEDGER_TOPIC]).cluster_id or ""
    path = cache_path(cluster_id, config.cluster)
    ledger_read = read_ledger(brokers, lookup_at(registry), _cached(store, path))
    ledger_read.agents.forget(now - int(config.completeness.silent_agents * 1000))
    store.replace(path, to_bytes(ledger_read))
    settle_seconds = config.completeness.settle
    settle_millis = None if settle_seconds is None else int(settle_seconds * 1000)
    return Watermarks(ledger_read.agents, topic_ends(brokers, topics), now, settle_millis)


def read_ledger(brokers: Brokers, lookup: Lookup, cached: LedgerRead | None) -> LedgerRead:
    """Reads `_audit` from the cached positions to its end, and returns the agents."""
    cluster_id = brokers.refresh([LEDGER_TOPIC]).cluster_id or ""
    if cached is None or cached.positions.cluster_id != cluster_id:
        cached = LedgerRead(LedgerPositions(cluster_id), Agents())
    positions = cached.positions
    logged_at = time.monotonic()
    for chunk in LedgerReader(brokers, lookup, chunk_bytes=_CHUNK_BYTES).read(positions):
        if chunk.gap:
            log.warning(
                "entries of the ledger were deleted before they were read: agents without later"
                " entries are unknown, and not waited for"
            )
        for statement in statements(chunk.body):
            cached.agents.take(statement)
        positions = chunk.positions
        if chunk.to_come and time.monotonic() - logged_at > _LOG_SECONDS:
            logged_at = time.monotonic()
            log.info("reading the ledger remaining_entries=%d", chunk.to_come)
    return LedgerRead(positions, cached.agents)


def topic_ends(brokers: Brokers, topics: Iterable[str]) -> Mapping[str, TopicEnd | None]:
    """The end offsets of topics; None for topics that do not exist."""
    names = sorted(set(topics))
    existing_topics = brokers.existing_topics(names, Operation.READ)
    targets = [
        TopicPartition(name, partition.index)
        for name, topic in existing_topics.items()
        for partition in topic.partitions
    ]
    offsets: dict[str, dict[int, int]] = {name: {} for name in existing_topics}
    for target, offset in offsets_of(brokers, dict.fromkeys(targets, LATEST)).items():
        offsets[target.topic][target.partition] = offset
    ends_by_topic: dict[str, TopicEnd | None] = dict.fromkeys(names)
    return ends_by_topic | {
        name: TopicEnd(id_of(topic), offsets[name]) for name, topic in existing_topics.items()
    }


def _cached(store: Store, path: str) -> LedgerRead | None:
    data = store.read(path)
    if data is None:
        return None
    ledger_read = from_bytes(data)
    if ledger_read is None:
        log.warning("the saved state of the ledger is damaged; reading the whole ledger")
    return ledger_read

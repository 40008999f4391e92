"""Reads `_audit` from the position of the last read to its end: agents' heartbeats, and what they
have signed of their batches.

Without an audit, agents' heartbeats are the watermarks of topics. A load reads them before it looks
up the topics' ends, and before it is planned: what they guarantee lies below these ends; see
completeness.py. Signed digests are read on when a table has read its batches, as late as possible.

A small file keeps the result, so that each load reads only new entries:

    {root}/_penstock/~watermarks/{cluster id}.json

With an audit, the file is in `~signed`, and was begun with the entries of one day.

It remembers agents for longer than `_audit` keeps entries, so it is more than a cache. If `_audit`
was recreated, the former one's content still counts, and the new one is read from its beginning.
If the file is lost, all of `_audit` is read again, and agents without an entry in it are unknown.
If two loaders write the file at once, one of them wins; both versions are correct.
"""

import logging
import re
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
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
from ledger.reading import LedgerPositions, LedgerReader, id_of, positions_since
from ledger.signed_passages import PassageReader, SignedPassage
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
MOST_READ: Final = 500_000  # signed passages in memory
MOST_KEPT: Final = 100_000  # signed passages that wait for a later load
MOST_WAITING_MILLIS: Final = 86_400_000
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
    signed: PassageReader = msgspec.field(default_factory=PassageReader)
    passages: list[SignedPassage] = []


class LedgerRead(msgspec.Struct, frozen=True):
    """The agents according to one `_audit`, read up to these positions, and those of their signed
    passages that no load has compared yet."""

    positions: LedgerPositions
    agents: Agents
    reader: PassageReader = msgspec.field(default_factory=PassageReader)
    passages: list[SignedPassage] = []


def cache_path(cluster_id: str, cluster: str, folder: str = "~watermarks") -> str:
    """The file's path. Ids, Kafka's and Penstock's, have letters, digits, `-` and `_`. The file of
    a cluster without an id is named after its configured name."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", cluster_id or cluster)
    return f"{PENSTOCK}/{folder}/{name}.json"


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
        read.reader,
        read.passages[-MOST_KEPT:],
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
    return LedgerRead(positions, Agents(agents, retired_hosts), file.signed, file.passages)


def _agent(row: _AgentRow, sets: list[frozenset[str]]) -> HeardAgent:
    return HeardAgent(
        row.host,
        row.seq,
        row.heard,
        tuple(Beat(until, sets[topics]) for until, topics in row.shipped),
        tuple(LeftTopics(until, sets[topics], since) for until, topics, since in row.left),
    )


class LoadLedger:
    """What one load knows of the ledger. May be used by any thread."""

    def __init__(
        self,
        config: LoaderConfig,
        brokers: Brokers,
        registry: RegistryClient,
        store: Store,
        *,
        topics: Collection[str],
        now: int,
    ) -> None:
        """`topics` are all that the loader may load; `now` is the time in milliseconds. `brokers`
        belongs to this ledger while it is used."""
        self._config = config
        self._brokers = brokers
        self._lookup = lookup_at(registry)
        self._store = store
        self._topics = frozenset(topics)
        self._now = now
        self._lock = threading.Lock()
        self._path = ""
        self._read: LedgerRead | None = None
        self._is_saved = True

    def watermarks(self, topics: Iterable[str]) -> Watermarks:
        """The watermarks of these topics, from everything that agents have reported. Raises errors
        of the brokers, the registry and the store: without watermarks, no hour can be judged."""
        with self._lock:
            agents = self._read_on().agents.copy()
            settle_seconds = self._config.completeness.settle
            settle_millis = None if settle_seconds is None else int(settle_seconds * 1000)
            ends = topic_ends(self._brokers, topics)
        return Watermarks(agents, ends, self._now, settle_millis)

    def passages(self, topics: Collection[str]) -> list[SignedPassage]:
        """Reads on, and returns what agents have signed of batches of these topics. The passages
        are returned again until they are settled. Raises errors of the brokers, the registry and
        the store."""
        with self._lock:
            return [passage for passage in self._read_on().passages if passage.topic in topics]

    def signs(self, topic: str) -> bool:
        """Whether agents have lately signed any batches of the topic. If `_audit` could not be
        read, they may have."""
        with self._lock:
            return self._read is None or topic in self._read.reader.signed

    def settle(self, passages: Iterable[SignedPassage]) -> None:
        """Forgets passages whose batches were compared and committed."""
        settled_passages = set(passages)
        if not settled_passages:
            return
        with self._lock:
            if self._read is not None:
                kept = [
                    passage for passage in self._read.passages if passage not in settled_passages
                ]
                self._read = msgspec.structs.replace(self._read, passages=kept)
                self._is_saved = False

    def save(self) -> None:
        """Saves what was read. If it is lost, the next load reads it again. Raises StoreError."""
        with self._lock:
            if self._read is None or self._is_saved:
                return
            oldest_millis = self._now - MOST_WAITING_MILLIS
            kept = [passage for passage in self._read.passages if passage.read_at >= oldest_millis]
            if dropped := len(self._read.passages) - min(len(kept), MOST_KEPT):
                log.warning(
                    "batches that agents have signed were not read for a day, and are not compared"
                    " with the agents' digests any more passages=%d",
                    dropped,
                )
            self._read = msgspec.structs.replace(self._read, passages=kept)
            self._store.replace(self._path, to_bytes(self._read))
            self._is_saved = True

    def _read_on(self) -> LedgerRead:
        if self._read is None:
            self._read = self._saved()
        # What was read before an error counts: the examination of journals goes on there.
        for ledger_read in read_chunks(
            self._brokers, self._lookup, self._read, self._topics, now=self._now
        ):
            self._read, self._is_saved = ledger_read, False
        heard_before = self._now - int(self._config.completeness.silent_agents * 1000)
        self._read.agents.forget(heard_before)
        self._read.reader.forget(heard_before)
        return self._read

    def _saved(self) -> LedgerRead:
        """What the last load has saved; without it, where reading begins."""
        has_audit = bool(self._config.audit)
        cluster_id = self._brokers.refresh([LEDGER_TOPIC]).cluster_id or ""
        folder = "~signed" if has_audit else "~watermarks"
        self._path = cache_path(cluster_id, self._config.cluster, folder)
        saved = _cached(self._store, self._path)
        if saved is not None and saved.positions.cluster_id == cluster_id:
            return saved
        self._is_saved = False
        if not has_audit:
            return LedgerRead(LedgerPositions(cluster_id), Agents())
        day_before = self._now - MOST_WAITING_MILLIS
        return LedgerRead(positions_since(self._brokers, day_before), Agents())


def read_chunks(
    brokers: Brokers,
    lookup: Lookup,
    cached: LedgerRead,
    topics: Collection[str] = (),
    *,
    now: int = 0,
) -> Iterator[LedgerRead]:
    """Reads `_audit` from the cached positions to its end. Yields, after each portion, the agents,
    and what they have signed of batches of these topics. `now` is the time in milliseconds."""
    passages = cached.passages
    logged_at = time.monotonic()
    for chunk in LedgerReader(brokers, lookup, chunk_bytes=_CHUNK_BYTES).read(cached.positions):
        if chunk.gap:
            log.warning(
                "entries of the ledger were deleted before they were read: agents without later"
                " entries are unknown, and not waited for"
            )
        for statement in statements(chunk.body):
            cached.agents.take(statement)
        if topics:
            new_passages = cached.reader.take(chunk.body, chunk.proofs, topics, now)
            passages = [*passages, *new_passages][-MOST_READ:]
        yield msgspec.structs.replace(cached, positions=chunk.positions, passages=passages)
        if chunk.to_come and time.monotonic() - logged_at > _LOG_SECONDS:
            logged_at = time.monotonic()
            log.info("reading the ledger remaining_entries=%d", chunk.to_come)


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

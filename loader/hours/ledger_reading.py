"""`_audit` read to its end, from where it was read to before; then where topics end.

The order matters: what heartbeats promise lies below ends that are looked up after them. See
watermarks.py. Whoever plans a load reads watermarks first.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Final

from client.brokers import Brokers
from client.delivery import TopicPartition
from client.metadata import Topic
from client.offsets import offsets_at, offsets_of
from client.partition_reader import PartitionReader
from loader.config import LEDGER_TOPIC, LoaderConfig
from ledger.agents import Agents
from loader.hours.ledger_entries import LedgerEntries, Lookup
from loader.hours.watermark_cache import LedgerRead, cache_path, from_bytes, to_bytes
from loader.hours.watermarks import TopicEnd, Watermarks
from loader.store.store import Store
from schemas.errors import InvalidSchema, RegistryRefused
from schemas.parsing import AvroSchema
from schemas.registry_client import SCHEMA_NOT_FOUND, RegistryClient
from wire.messages.list_offsets import EARLIEST, LATEST

_LOG_SECONDS: Final = 10.0
# Its batches are small, and so many at once that Python's garbage collector has work with them.
_FETCH_BYTES: Final = 1024 * 1024

log = logging.getLogger(__name__)


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


def lookup_at(registry: RegistryClient) -> Lookup:
    """The schema of an id; none if it is not there, or not Avro."""

    def lookup(schema_id: int) -> AvroSchema | None:
        try:
            return registry.schema(schema_id)
        except InvalidSchema:
            return None
        except RegistryRefused as error:
            if error.code == SCHEMA_NOT_FOUND:
                return None
            raise

    return lookup


def read_ledger(brokers: Brokers, lookup: Lookup, cached: LedgerRead | None) -> LedgerRead:
    """All that `_audit` says until now, and what was read of it before."""
    known = brokers.refresh([LEDGER_TOPIC])
    cluster_id = known.cluster_id or ""
    if cached is None or cached.cluster_id != cluster_id:
        cached = LedgerRead(cluster_id, "", {}, Agents())
    if not known.has(LEDGER_TOPIC):
        return cached
    topic = brokers.topic(LEDGER_TOPIC)
    topic_id = id_of(topic)
    partitions = [each.index for each in topic.partitions]
    earliest = offsets_at(brokers, LEDGER_TOPIC, partitions, EARLIEST)
    ends = offsets_at(brokers, LEDGER_TOPIC, partitions, LATEST)
    if not _goes_on(cached, topic_id, ends):
        cached = LedgerRead(cluster_id, topic_id, {}, cached.agents)
    if any(earliest[each] > cached.offsets.get(each, 0) for each in partitions):
        log.warning(
            "entries of the ledger were deleted before they were read here: agents that have said"
            " nothing since then are not known, and not waited for"
        )
    entries = LedgerEntries(lookup)
    progress = _Progress(sum(ends.values()) - sum(cached.offsets.values()))
    offsets: dict[int, int] = {}
    for partition, end in ends.items():
        first = max(cached.offsets.get(partition, 0), earliest[partition])
        reader = PartitionReader(
            brokers,
            LEDGER_TOPIC,
            partition,
            first,
            end,
            topic_id=topic_id,
            from_within=True,
            fetch_bytes=_FETCH_BYTES,
        )
        for batch in reader:
            for said in entries.add(batch):
                cached.agents.take(said)
            progress.read(batch.header.record_count)
        for said in entries.take():
            cached.agents.take(said)
        offsets[partition] = reader.next_offset
    return LedgerRead(cluster_id, topic_id, offsets, cached.agents)


def topic_ends(brokers: Brokers, topics: Iterable[str]) -> Mapping[str, TopicEnd | None]:
    """Where they end; None for those that do not exist."""
    wanted = sorted(set(topics))
    known = brokers.refresh(wanted)
    there = {name: brokers.topic(name) for name in wanted if known.has(name)}
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


def id_of(topic: Topic) -> str:
    return "" if topic.id is None else str(topic.id)


def _cached(store: Store, path: str) -> LedgerRead | None:
    data = store.read(path)
    if data is None:
        return None
    found = from_bytes(data)
    if found is None:
        log.warning("what was kept of the ledger cannot be read; the ledger is read anew")
    return found


def _goes_on(cached: LedgerRead, topic_id: str, ends: Mapping[int, int]) -> bool:
    """Whether it is of this log, which has all of it."""
    return cached.topic_id == topic_id and all(
        ends.get(each, -1) >= offset for each, offset in cached.offsets.items()
    )


class _Progress:
    """A line now and then, where there is much to be read."""

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._read = 0
        self._said = time.monotonic()

    def read(self, count: int) -> None:
        self._read += count
        if self._read % 65536 < count and time.monotonic() - self._said > _LOG_SECONDS:
            self._said = time.monotonic()
            log.info("reading the ledger entries=%d of=%d", self._read, self._entries)

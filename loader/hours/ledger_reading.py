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
from client.offsets import offsets_of
from ledger.agents import Agents
from ledger.entries import Lookup
from ledger.heartbeats import said
from ledger.names import LEDGER_TOPIC
from ledger.reading import LedgerPositions, LedgerReader, id_of, lookup_at
from loader.config import LoaderConfig
from loader.hours.watermark_cache import LedgerRead, cache_path, from_bytes, to_bytes
from loader.hours.watermarks import TopicEnd, Watermarks
from loader.store.store import Store
from schemas.registry_client import RegistryClient
from wire.messages.list_offsets import LATEST

_LOG_SECONDS: Final = 10.0
_CHUNK_BYTES: Final = 32 * 1024 * 1024  # the driver has other things to keep

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


def _cached(store: Store, path: str) -> LedgerRead | None:
    data = store.read(path)
    if data is None:
        return None
    found = from_bytes(data)
    if found is None:
        log.warning("what was kept of the ledger cannot be read; the ledger is read anew")
    return found

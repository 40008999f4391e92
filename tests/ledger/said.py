"""Entries of the ledger as agents and operators write them, and batches of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from client.reading.fetcher import FetchedBatch
from schemas.envelope import Encoder
from schemas.event_schemas import LEDGER, built_in
from wire.record_batches.batch import read_header
from wire.record_batches.compression import Codec
from wire.record_batches.records import Record, build_batch

ENCODERS = {schema_id: Encoder(built_in(LEDGER), schema_id) for schema_id in (7, 8)}


def entry(
    agent: str,
    seq: int,
    *beats: tuple[int, Sequence[str]],
    host: str = "",
    time: int = 0,
    **more: Any,
) -> dict[str, Any]:
    return {
        "header": {
            "time": time or 60_000 * seq,
            "host": host or f"host-of-{agent}",
            "app": "penstock-agent",
            "source": agent,
            "seq": seq,
            "position": 0,
        },
        "version": 1,
        "tier": "agent",
        "cluster": "dc1",
        "window_millis": 60_000,
        "heartbeats": [
            {"until": until, "topics": list(topics), "lag_bytes": 0} for until, topics in beats
        ],
        **more,
    }


def retirement(host: str, since: int, time: int, agent: str = "") -> dict[str, Any]:
    statement = {"host": host, "agent": agent, "since": since, "reason": "sold"}
    return entry("operator", 0, time=time, tier="operator", retired=[statement])


def passage(topic: str, runs: int = 1) -> dict[str, Any]:
    return {
        "topic": topic,
        "topic_id": "",
        "partition": 0,
        "offsets": [{"first": 0, "count": runs}],
        "windows": [{"start": 0, "events": runs, "bytes": 1, "crc_sum": 1}],
        "runs": [{"source": f"s{at}", "seq": at, "events": 1} for at in range(runs)],
    }


def batch_of(
    entries: Iterable[Mapping[str, Any]],
    *,
    codec: Codec = Codec.ZSTD,
    producer: int = -1,
    schema_id: int = 7,
    key: bytes | None = None,
) -> FetchedBatch:
    values = [ENCODERS[schema_id].encode(each) for each in entries]
    messages = [Record(at, 0, key, value) for at, value in enumerate(values)]
    data = build_batch(messages, codec=codec, producer_id=producer)
    return FetchedBatch(0, read_header(data), memoryview(data))

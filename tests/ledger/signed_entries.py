"""Ledger entries of agents that sign them, as columns with their proofs."""

from collections.abc import Iterable, Sequence
from typing import Any

from client.reading.fetcher import FetchedBatch
from ground.signatures.keys import SigningKey
from ledger.entries import LedgerEntries, LedgerRows
from ledger.proofs import HEADER, Chain
from ledger.source_ids import journal_id, new_source_id
from schemas.event_schemas import LEDGER, built_in
from tests.ledger.said import ENCODERS, entry
from wire.record_batches.batch import read_header
from wire.record_batches.records import Record, build_batch

HOUR = 3_600_000
TIME = 497_000 * HOUR


def signed_passage(
    source: str,
    *stretches: tuple[int, int],
    digest: bytes = b"",
    topic: str = "clicks",
    topic_id: str = "",
    partition: int = 0,
    start: int = TIME,
) -> dict[str, Any]:
    """With stretches of offsets, half-open, and events of one source."""
    events = sum(end - first for first, end in stretches)
    return {
        "topic": topic,
        "topic_id": topic_id,
        "partition": partition,
        "offsets": [{"first": first, "count": end - first} for first, end in stretches],
        "windows": [{"start": start, "events": events, "bytes": 1, "crc_sum": 1}],
        "runs": [{"source": source, "seq": 0, "events": events}],
        "digest": digest,
    }


class SigningAgent:
    """An agent that proves each entry with heartbeats, and its first one."""

    def __init__(self, host: str = "web-1", name: str = "") -> None:
        self.key = SigningKey.new()
        self.name = name or journal_id(self.key.public)
        self.source = new_source_id(self.key.public)
        self.host = host
        self._chain = Chain(self.key)
        self._seq = 0

    def says(self, *passages: dict[str, Any], beats: bool = True) -> Record:
        until = [(TIME, ["clicks"])] if beats else []
        said = entry(self.name, self._seq, *until, host=self.host, time=TIME, passages=[*passages])
        value = ENCODERS[7].encode(said)
        is_first, self._seq = not self._seq, self._seq + 1
        if beats or is_first:
            proof = self._chain.prove(value, 0.0).encoded
            return Record(0, 0, None, value, ((HEADER, proof),))
        self._chain.add(value)
        return Record(0, 0, None, value)


def read(found: Iterable[Record]) -> LedgerRows:
    entries = LedgerEntries({7: built_in(LEDGER)}.get)
    for record in found:
        data = build_batch([record])
        entries.add(FetchedBatch(0, read_header(data), memoryview(data)))
    return entries.take()


def in_portions(records: Sequence[Record], size: int) -> list[LedgerRows]:
    return [read(records[at : at + size]) for at in range(0, len(records), size)]

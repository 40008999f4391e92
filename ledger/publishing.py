"""Writes entries to `_audit`, acknowledged by all replicas.

All entries of a journal are in one partition, so that they stay in order. Writing the same entries
again, in the same order, does no harm: with a new chain of the same key their bytes and proofs are
the same, since signatures of Ed25519 are.
"""

import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from client.connection.brokers import Brokers
from client.producing.producer import Producer
from ledger.names import LEDGER_TOPIC, SUBJECT
from ledger.proofs import HEADER, Chain
from schemas.envelope import Encoder
from schemas.errors import RegistryError
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from wire.acls import Operation
from wire.record_batches.records import Codec

Entry = Mapping[str, Any]  # as our Ledger.avsc has it


def write_entries(
    brokers: Brokers,
    registry: RegistryClient,
    entries: Sequence[Entry],
    *,
    timestamp: int,
    chain: Chain | None = None,
) -> None:
    """Writes the entries and waits for acknowledgement; with a chain, each has its proof. Raises
    ClientError or SchemaError."""
    if not entries:
        return
    values = Encoder(built_in(LEDGER), schema_id(registry)).encode_many(entries)
    producer = Producer(brokers, LEDGER_TOPIC, codec=Codec.ZSTD)
    partitions = len(brokers.topic(LEDGER_TOPIC, Operation.WRITE).partitions)
    for entry, value in zip(entries, values, strict=True):
        partition = partition_of(entry["header"]["source"], partitions)
        proof = () if chain is None else ((HEADER, chain.prove(value, time.monotonic()).encoded),)
        producer.send(value, partition=partition, timestamp=timestamp, headers=proof)
    producer.flush()


def partition_of(source: str, partitions: int) -> int:
    """Returns the partition of `_audit` that a journal's entries go to."""
    return zlib.crc32(source.encode()) % partitions


def schema_id(registry: RegistryClient) -> int:
    """Returns the id of exactly our version of the schema, which is registered if necessary."""
    text = built_in(LEDGER).text
    schema = registry.lookup(SUBJECT, text)
    if schema is None:
        registry.register(SUBJECT, text)
        schema = registry.lookup(SUBJECT, text)
    if schema is None:
        raise RegistryError(f"the registry registered {SUBJECT}, but does not return it")
    return schema.id

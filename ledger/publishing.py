"""Entries on their way to `_audit`: acknowledged by all replicas, or it is said why not.

One partition for each journal, so that its entries stay in order. Who writes the same entries in
the same order every time does no harm with those that were there already.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from client.brokers import Brokers
from client.producer import Producer
from ledger.names import LEDGER_TOPIC, SUBJECT
from schemas.envelope import Encoder
from schemas.errors import RegistryError
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from wire.acls import Operation
from wire.records import Codec

Entry = Mapping[str, Any]  # as our Ledger.avsc has it


def write_entries(
    brokers: Brokers, registry: RegistryClient, entries: Sequence[Entry], *, timestamp: int
) -> None:
    """Returns when `_audit` has them. Raises ClientError or SchemaError."""
    if not entries:
        return
    values = Encoder(built_in(LEDGER), schema_id(registry)).encode_many(entries)
    producer = Producer(brokers, LEDGER_TOPIC, codec=Codec.ZSTD)
    partitions = len(brokers.topic(LEDGER_TOPIC, Operation.WRITE).partitions)
    for entry, value in zip(entries, values, strict=True):
        journal = partition_of(entry["header"]["source"], partitions)
        producer.send(value, partition=journal, timestamp=timestamp)
    producer.flush()


def partition_of(source: str, partitions: int) -> int:
    """Where a journal's entries are."""
    return zlib.crc32(source.encode()) % partitions


def schema_id(registry: RegistryClient) -> int:
    """Of this very text, whatever versions are beside it: no other is written here."""
    text = built_in(LEDGER).text
    found = registry.lookup(SUBJECT, text)
    if found is None:
        registry.register(SUBJECT, text)
        found = registry.lookup(SUBJECT, text)
    if found is None:
        raise RegistryError(f"{SUBJECT} was registered, and is gone again")
    return found.id

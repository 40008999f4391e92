"""A run's entries on their way to `_audit`: acknowledged by all replicas, or it is said why not.

The same entries in the same order every time, so it does no harm if they were there already, or
some of them. One partition for each journal, so that its entries stay in order.
"""

import zlib
from typing import Final

from client.brokers import Brokers
from client.producer import Producer
from loader.config import LEDGER_TOPIC
from loader.ledger.entries import entries_of
from loader.manifests import Manifest
from schemas.envelope import Encoder
from schemas.errors import RegistryError
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from wire.records import Codec

SUBJECT: Final = f"{LEDGER_TOPIC}-value"


def write_entries(brokers: Brokers, registry: RegistryClient, manifest: Manifest) -> None:
    """Returns when `_audit` has them. Raises ClientError or SchemaError."""
    entries = entries_of(manifest)
    if not entries:
        return
    encoder = Encoder(built_in(LEDGER), _schema_id(registry))
    values = encoder.encode_many(entries)
    producer = Producer(brokers, LEDGER_TOPIC, codec=Codec.ZSTD)
    partitions = len(brokers.topic(LEDGER_TOPIC).partitions)
    partition = zlib.crc32(entries[0]["header"]["source"].encode()) % partitions
    for value in values:
        producer.send(value, partition=partition, timestamp=manifest.committed)
    producer.flush()


def _schema_id(registry: RegistryClient) -> int:
    """Of this very text, whatever versions are beside it: no other is written here."""
    text = built_in(LEDGER).text
    found = registry.lookup(SUBJECT, text)
    if found is None:
        registry.register(SUBJECT, text)
        found = registry.lookup(SUBJECT, text)
    if found is None:
        raise RegistryError(f"{SUBJECT} was registered, and is gone again")
    return found.id

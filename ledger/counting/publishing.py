"""Sends a counter's entries to `_audit`, one at a time, acknowledged by all replicas.

The producer stays open between entries. After an error, everything is opened again: connections,
the schema id, the producer.
"""

from contextlib import ExitStack
from typing import Final

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.producer import Producer
from ledger.counting.batches import Json
from ledger.counting.sealed_entries import SealedEntry
from ledger.names import LEDGER_TOPIC
from ledger.proofs import HEADER
from ledger.publishing import partition_of, schema_id
from schemas.envelope import Encoder
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from schemas.remote.address import RegistryAddress
from wire.acls import Operation
from wire.record_batches.records import Codec

_PATIENCE_SECONDS: Final = 10.0


class LedgerWriter:
    """Writes a counter's entries. For one thread."""

    def __init__(
        self, bootstrap: Bootstrap, registry: str | RegistryAddress, *, client_id: str
    ) -> None:
        """Opens no connection yet."""
        self._bootstrap = bootstrap
        self._registry = registry
        self._client_id = client_id
        self._ends = ExitStack()
        self._open: tuple[Producer, Encoder, int] | None = None

    @property
    def is_connected(self) -> bool:
        """Whether entries can be encoded without asking anybody."""
        return self._open is not None

    def encode(self, entry: Json) -> bytes:
        """Returns the entry as it is written. Raises ClientError or SchemaError."""
        _, encoder, _ = self._connection()
        return encoder.encode(entry)

    def send(self, entry: SealedEntry) -> None:
        """Sends the entry and waits for its acknowledgement. Raises ClientError or SchemaError."""
        producer, _, partitions = self._connection()
        header = entry.entry["header"]
        try:
            producer.send(
                entry.value,
                partition=partition_of(header["source"], partitions),
                timestamp=header["time"],
                headers=((HEADER, entry.proof),),
            )
            producer.flush()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._open = None
        self._ends.close()

    def _connection(self) -> tuple[Producer, Encoder, int]:
        if self._open is None:
            try:
                self._open = self._connect()
            except BaseException:
                self.close()
                raise
        return self._open

    def _connect(self) -> tuple[Producer, Encoder, int]:
        registry = RegistryClient(
            self._registry, patience_seconds=_PATIENCE_SECONDS, first_contact_seconds=0
        )
        with registry:
            encoder = Encoder(built_in(LEDGER), schema_id(registry))
        brokers = self._ends.enter_context(
            Brokers(self._bootstrap, client_id=self._client_id, patience_seconds=_PATIENCE_SECONDS)
        )
        topic = brokers.topic(LEDGER_TOPIC, Operation.WRITE, create=True)
        producer = Producer(brokers, LEDGER_TOPIC, codec=Codec.ZSTD)
        return producer, encoder, len(topic.partitions)

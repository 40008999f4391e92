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
from ledger.names import LEDGER_TOPIC
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

    def send(self, entry: Json) -> None:
        """Sends the entry and waits for its acknowledgement. Raises ClientError or SchemaError."""
        try:
            if self._open is None:
                self._open = self._connect()
            producer, encoder, partitions = self._open
            header = entry["header"]
            partition = partition_of(header["source"], partitions)
            producer.send(encoder.encode(entry), partition=partition, timestamp=header["time"])
            producer.flush()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._open = None
        self._ends.close()

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

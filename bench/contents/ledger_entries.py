"""The entries of a simulated fleet as batches in `_audit`, one entry each.

Entries are encoded once and kept in files, a minute each, since encoding takes longer than any
measurement that uses them. The loader's entries of an hour are in the file of its last minute.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from bench.contents.audit_fleet import Fleet
from bench.loads.requests import AnswerError, produce_request, produce_requests
from ledger.names import LEDGER_TOPIC
from ledger.publishing import partition_of
from schemas.envelope import Encoder
from schemas.event_schemas import LEDGER, built_in
from wire.record_batches.records import Codec, Record, build_batch

PARTITIONS: Final = 8
HOUR_MINUTES: Final = 60
_AT_ONCE: Final = 500  # requests whose answers fit into a socket's buffer
_PATIENCE: Final = 60.0

Batches = Sequence[tuple[int, bytes]]  # (partition, data), by time


@dataclass(frozen=True, slots=True)
class LedgerOfFleet:
    """The encoded entries of a fleet, by minute."""

    fleet: Fleet
    schema_id: int
    folder: Path
    _encoder: Encoder = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_encoder", Encoder(built_in(LEDGER), self.schema_id))

    def minute(self, number: int) -> Batches:
        file = self.folder / (
            f"fleet-{self.fleet.begin}-{self.fleet.agents}-{self.schema_id}-{number}"
        )
        if not file.exists():
            batches = [self._batch(row) for row in fleet_entries(self.fleet, number).to_pylist()]
            file.write_bytes(msgspec.msgpack.encode(batches))
        return msgspec.msgpack.decode(file.read_bytes(), type=list[tuple[int, bytes]])

    def _batch(self, entry: dict[str, dict[str, object]]) -> tuple[int, bytes]:
        header = entry["header"]
        time, source = header["time"], header["source"]
        assert isinstance(time, int)
        assert isinstance(source, str)
        record = Record(0, time, None, self._encoder.encode(entry))
        data = build_batch([record], codec=Codec.ZSTD, base_timestamp=time)
        return partition_of(source, PARTITIONS), data


def fleet_entries(fleet: Fleet, minute: int) -> pa.StructArray:
    """Returns the entries of agents and brokers, and in the last minute of an hour also the
    loader's."""
    entries = fleet.minute(minute)
    if (minute + 1) % HOUR_MINUTES:
        return entries
    return pa.concat_arrays([entries, fleet.load(minute // HOUR_MINUTES)])


def publish(port: int, batches: Batches) -> None:
    """Produces the batches in order, each in a request of its own, and checks the answers."""
    if not batches:
        return
    (partition, data) = batches[0]
    answers = produce_requests(LEDGER_TOPIC, partition, data, 1)
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE) as connection:
        for first in range(0, len(batches), _AT_ONCE):
            portion = batches[first : first + _AT_ONCE]
            connection.sendall(
                b"".join(produce_request(LEDGER_TOPIC, *batch, 1) for batch in portion)
            )
            buffer = bytearray()
            while len(buffer) < len(portion) * answers.answer_size:
                piece = connection.recv(2**16)
                if not piece:
                    raise AnswerError("the broker closed the connection")
                buffer += piece
            answers.check(buffer)

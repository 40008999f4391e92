"""What a simulated fleet writes to `_audit`, as it lies there: each entry a batch of its own.

Entries are made once, a minute at a time, and kept in files: encoding them takes longer than all
that is measured with them. The loader's of an hour come with its last minute.
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
_AT_ONCE: Final = 500  # requests, whose answers fit into what a socket holds
_PATIENCE: Final = 60.0

Batches = Sequence[tuple[int, bytes]]  # with their partitions, in the order of their times


@dataclass(frozen=True, slots=True)
class LedgerOfFleet:
    """All that a fleet says, minute by minute."""

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
            made = [self._batch(entry) for entry in said(self.fleet, number).to_pylist()]
            file.write_bytes(msgspec.msgpack.encode(made))
        return msgspec.msgpack.decode(file.read_bytes(), type=list[tuple[int, bytes]])

    def _batch(self, entry: dict[str, dict[str, object]]) -> tuple[int, bytes]:
        header = entry["header"]
        time, source = header["time"], header["source"]
        assert isinstance(time, int)
        assert isinstance(source, str)
        record = Record(0, time, None, self._encoder.encode(entry))
        data = build_batch([record], codec=Codec.ZSTD, base_timestamp=time)
        return partition_of(source, PARTITIONS), data


def said(fleet: Fleet, minute: int) -> pa.StructArray:
    """Of a minute by agents and brokers, and with an hour's last one by the loader."""
    entries = fleet.minute(minute)
    if (minute + 1) % HOUR_MINUTES:
        return entries
    return pa.concat_arrays([entries, fleet.load(minute // HOUR_MINUTES)])


def publish(port: int, batches: Batches) -> None:
    """All of them acknowledged, in their order, each in a request of its own."""
    if not batches:
        return
    (partition, data) = batches[0]
    answers = produce_requests(LEDGER_TOPIC, partition, data, 1)
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE) as connection:
        for first in range(0, len(batches), _AT_ONCE):
            some = batches[first : first + _AT_ONCE]
            connection.sendall(b"".join(produce_request(LEDGER_TOPIC, *each, 1) for each in some))
            received = bytearray()
            while len(received) < len(some) * answers.answer_size:
                got = connection.recv(2**16)
                if not got:
                    raise AnswerError("the broker closed the connection")
                received += got
            answers.check(received)

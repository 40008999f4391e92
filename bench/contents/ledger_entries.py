"""The entries of a simulated fleet as batches in `_audit`, one entry each.

Entries are encoded once and kept in files, a minute each, since encoding takes longer than any
measurement that uses them. The loader's entries of an hour are in the file of its last minute.

A signed ledger has a proof with each entry: of agents, too, since all of theirs have heartbeats.
The keys are made of the journals' names, so that each run has the same.
"""

import hashlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.contents.audit_fleet import Fleet
from bench.loads.requests import AnswerError, produce_request, produce_requests
from ground.signatures.keys import SigningKey
from ledger.names import LEDGER_TOPIC
from ledger.proofs import HEADER, Chain
from ledger.publishing import partition_of
from schemas.envelope import Encoder
from schemas.event_schemas import LEDGER, built_in
from wire.record_batches.records import Codec, Record, build_batch

PARTITIONS: Final = 8
HOUR_MINUTES: Final = 60
_AT_ONCE: Final = 500  # requests whose answers fit into a socket's buffer
_PATIENCE: Final = 60.0

Batches = Sequence[tuple[int, bytes]]  # (partition, data), by time


class _Minute(NamedTuple):
    batches: list[tuple[int, bytes]]
    heads: dict[str, bytes]  # of the chains after them


@dataclass(frozen=True, slots=True)
class LedgerOfFleet:
    """The encoded entries of a fleet, by minute."""

    fleet: Fleet
    schema_id: int
    folder: Path
    signed: bool = False
    _encoder: Encoder = field(init=False)
    _chains: dict[str, Chain] = field(default_factory=dict)  # after the last encoded minute

    def __post_init__(self) -> None:
        object.__setattr__(self, "_encoder", Encoder(built_in(LEDGER), self.schema_id))

    def minute(self, number: int) -> Batches:
        file = self._file(number)
        if not file.exists():
            if self.signed and number and not self._chains:
                self._resume(number - 1)
            batches = [self._batch(row) for row in fleet_entries(self.fleet, number).to_pylist()]
            heads = {journal: chain.head for journal, chain in self._chains.items()}
            file.write_bytes(msgspec.msgpack.encode((batches, heads)))
        return _decoded(file).batches

    def _file(self, number: int) -> Path:
        kind = "signed" if self.signed else "fleet"
        return self.folder / (
            f"{kind}-{self.fleet.begin}-{self.fleet.agents}-{self.schema_id}-{number}"
        )

    def _resume(self, number: int) -> None:
        """Continues the chains as they were after a minute."""
        if not self._file(number).exists():
            self.minute(number)
        for journal, head in _decoded(self._file(number)).heads.items():
            self._chains[journal] = Chain(_key_of(journal), head)

    def _batch(self, entry: dict[str, dict[str, object]]) -> tuple[int, bytes]:
        header = entry["header"]
        time, source = header["time"], header["source"]
        assert isinstance(time, int)
        assert isinstance(source, str)
        value = self._encoder.encode(entry)
        headers: tuple[tuple[str, bytes], ...] = ()
        if self.signed:
            chain = self._chains.setdefault(source, Chain(_key_of(source)))
            headers = ((HEADER, chain.prove(value, time / 1e3).encoded),)
        record = Record(0, time, None, value, headers)
        data = build_batch([record], codec=Codec.ZSTD, base_timestamp=time)
        return partition_of(source, PARTITIONS), data


def _decoded(file: Path) -> _Minute:
    """Returns a minute's batches, and the heads of the chains after them."""
    return msgspec.msgpack.decode(file.read_bytes(), type=_Minute)


def _key_of(journal: str) -> SigningKey:
    seed = hashlib.sha256(journal.encode()).digest()
    return SigningKey(Ed25519PrivateKey.from_private_bytes(seed))


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

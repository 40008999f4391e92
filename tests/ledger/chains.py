"""Walks the chains of journals in `_audit` as docs/ledger-entries.md describes them, by hashlib and
`cryptography` alone: a second opinion beside the programs that write and read them.
"""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from client.connection.brokers import Brokers
from client.reading.fetcher import Fetcher
from client.reading.offsets import Beginning, End, start_offsets
from schemas.envelope import Decoder
from schemas.event_schemas import LEDGER, built_in
from wire.record_batches.records import Record, records

AUDIT: Final = "_audit"
ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"


class Walked(msgspec.Struct):
    """The chain of one journal, in the order of the log, without repeated entries."""

    entries: list[dict[str, Any]] = []
    values: dict[int, bytes] = {}
    proofs: dict[int, bytes] = {}
    keys: list[bytes] = []  # each as often as it was published in a row
    breaks: list[int] = []  # the numbers of proofs that build on another head than the one before
    repeated: int = 0
    head: bytes = bytes(32)

    @property
    def numbers(self) -> list[int]:
        return list(self.values)

    @property
    def proven(self) -> int:
        """The number of the last proven entry."""
        return max(self.proofs, default=-1)

    def add(self, record: Record, entry: dict[str, Any]) -> None:
        number, value = entry["header"]["seq"], record.value or b""
        proof = dict(record.headers).get("proof")
        # What a release without proofs has sent may come again, encoded and proven by this one.
        is_first_proof = proof is not None and not self.proofs
        if number in self.values and not is_first_proof:
            assert (self.values[number], self.proofs.get(number)) == (value, proof), number
            self.repeated += 1
            return
        self.entries.append(entry)
        self.values[number] = value
        before = self.head
        if proof is not None:
            self.proofs[number] = proof
            assert proof[0] == 1
            assert len(proof) in {97, 129}
            before = proof[1:33]
            if before != self.head:
                self.breaks.append(number)
            if len(proof) == 129 and self.keys[-1:] != [proof[97:]]:
                self.keys.append(proof[97:])
        self.head = hashlib.sha256(before + hashlib.sha256(value).digest()).digest()
        if proof is not None:
            key = Ed25519PublicKey.from_public_bytes(self.keys[-1])
            key.verify(proof[33:97], b"penstock ledger entry 1\0" + self.head)


_OURS: Final = Decoder(lambda _: built_in(LEDGER))


def walk(
    found: Iterable[Record],
    decoder: Decoder = _OURS,
    wanted: Callable[[dict[str, Any]], bool] = lambda entry: True,
) -> dict[str, Walked]:
    """By journal, of those whose entries are wanted. Raises InvalidSignature."""
    journals: dict[str, Walked] = {}
    for record in found:
        entry: Any = decoder.decode(record.value or b"")
        if wanted(entry):
            journals.setdefault(entry["header"]["source"], Walked()).add(record, entry)
    return journals


def walk_audit(
    brokers: Brokers,
    decoder: Decoder = _OURS,
    wanted: Callable[[dict[str, Any]], bool] = lambda entry: True,
) -> dict[str, Walked]:
    """All that `_audit` has."""
    partitions = [each.index for each in brokers.topic(AUDIT).partitions]
    ends = start_offsets(brokers, AUDIT, partitions, End())
    begins = start_offsets(brokers, AUDIT, partitions, Beginning())
    filled = {each: at for each, at in begins.items() if at < ends[each]}
    found: list[Record] = []
    fetcher = Fetcher(brokers, AUDIT, filled)
    try:
        while any(fetcher.positions[each] < ends[each] for each in filled):
            for batch in fetcher.poll(1):
                found += records(bytes(batch.data))
    finally:
        fetcher.close()
    return walk(found, decoder, wanted)


def key_in(directory: Path) -> bytes:
    """The public key in a data directory."""
    key = load_pem_public_key((directory / "signing-key.pub").read_bytes())
    assert isinstance(key, Ed25519PublicKey)
    return key.public_bytes_raw()


def der_of(key: bytes) -> bytes:
    return bytes.fromhex("302a300506032b6570032100") + key


def name_of(key: bytes) -> str:
    """The name of the journal that a key makes: the first 100 bits of its fingerprint."""
    digest = int.from_bytes(hashlib.sha256(der_of(key)).digest(), "big")
    return "".join(ALPHABET[digest >> shift & 31] for shift in range(251, 151, -5))

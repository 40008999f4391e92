"""Each entry is read with the digest of its bytes and with its proof, however it is read."""

import hashlib
from itertools import count

import pytest

from client.reading.fetcher import FetchedBatch
from ground.signatures.keys import SigningKey
from ledger.entries import LedgerEntries
from ledger.proofs import HEADER, Chain, Proof
from schemas.event_schemas import LEDGER, built_in
from tests.ledger.said import ENCODERS, entry
from wire.record_batches.batch import read_header
from wire.record_batches.compression import Codec
from wire.record_batches.records import Record, build_batch

ENTRIES = 60


def records_of_a_journal() -> list[Record]:
    """Every third has a proof, and another header before it."""
    chain = Chain(SigningKey.new())
    records: list[Record] = []
    for seq in range(ENTRIES):
        value = ENCODERS[7].encode(entry("a", seq, (seq, ["x"])))
        if seq % 3:
            chain.add(value)
            records.append(Record(0, 0, None, value))
        else:
            proof = chain.prove(value, 0.0).encoded
            records.append(Record(0, 0, None, value, (("trace", b"1"), (HEADER, proof))))
    return records


@pytest.mark.parametrize("size", [1, 7, ENTRIES])
@pytest.mark.parametrize("codecs", [[Codec.ZSTD], [Codec.NONE], [Codec.LZ4]])
def test_digests_and_proofs_are_beside_their_entries(size: int, codecs: list[Codec]) -> None:
    records = records_of_a_journal()
    entries = LedgerEntries({7: built_in(LEDGER)}.get)
    for portion in batched_records(records, size):
        data = build_batch(portion, codec=codecs[0])
        entries.add(FetchedBatch(0, read_header(data), memoryview(data)))
    rows = entries.take()
    assert rows.body.field("header").field("seq").to_pylist() == list(range(ENTRIES))
    digests = [hashlib.sha256(record.value or b"").digest() for record in records]
    assert rows.proofs.field("digest").to_pylist() == digests
    proofs = [record.headers[1][1] if record.headers else None for record in records]
    assert rows.proofs.field("proof").to_pylist() == proofs
    first = Proof.decode(proofs[0] or b"")
    assert first is not None
    assert first.key is not None
    assert first.holds(first.key, digests[0])


def batched_records(records: list[Record], size: int) -> list[list[Record]]:
    return [
        [
            record._replace(offset=offset)
            for offset, record in zip(count(), records[at : at + size], strict=False)
        ]
        for at in range(0, len(records), size)
    ]

"""Which entries are handed over with the value of their record: agents' with a proof, whether they
are read together or one by one."""

import pytest

from client.reading.fetcher import FetchedBatch
from ground.signatures.keys import SigningKey
from ledger.entries import LedgerEntries
from ledger.proofs import HEADER, Chain
from schemas.event_schemas import LEDGER, built_in
from tests.ledger.said import ENCODERS, entry
from wire.record_batches.batch import read_header
from wire.record_batches.compression import Codec
from wire.record_batches.records import Record, build_batch


@pytest.mark.parametrize("count", [3, 60])
def test_agents_entries_with_a_proof_have_their_values(count: int) -> None:
    entries = LedgerEntries({7: built_in(LEDGER)}.get)
    chain = Chain(SigningKey.new())
    wanted: list[tuple[bytes | None, bytes | None]] = []
    for number in range(count):
        tier, is_proven = ("agent", "broker")[number % 2], number % 3 > 0
        value = ENCODERS[7].encode(entry("a", number, (number + 1, ["x"]), tier=tier))
        proof = chain.prove(value, 0.0).encoded if is_proven else None
        headers = () if proof is None else (("other", b"1"), (HEADER, proof))
        data = build_batch([Record(0, 0, None, value, headers)], codec=Codec.ZSTD)
        entries.add(FetchedBatch(0, read_header(data), memoryview(data)))
        wanted.append((proof, value if tier == "agent" and is_proven else None))
    proofs = entries.take().proofs
    proofs.validate(full=True)
    columns = (proofs.field(name).to_pylist() for name in ("proof", "value"))
    assert list(zip(*columns, strict=True)) == wanted

"""Reads the chain of the agent's ledger entries (ledger/proofs.py) from their batches. Pure."""

from client.producing.delivery import Batch
from ledger.proofs import HEADER, Proof, digest_of, head_after
from wire.record_batches.records import Record, records


def head_behind(head: bytes, batch: Batch) -> bytes:
    """Returns the head after the batch's entries, given the head before them."""
    for record in records(batch.data):
        head = head_after(head, digest_of(record.value or b""))
    return head


def proof_of(record: Record) -> Proof | None:
    """Returns the proof in an entry's record; None if it has none."""
    content = dict(record.headers).get(HEADER)
    return None if content is None else Proof.decode(content)


def fits(head: bytes, batch: Batch) -> bool:
    """Whether the proofs in a batch, if any, build on this head."""
    for record in records(batch.data):
        proof = proof_of(record)
        if proof is not None and proof.previous != head:
            return False
        head = head_after(head, digest_of(record.value or b""))
    return True

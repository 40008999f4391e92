"""Signatures that are verified after the entries that they prove were folded, while a ledger is far
behind.

A signature takes as long as folding twenty entries. A later one of the same journal covers the
earlier ones through the hash chain, so of several chunks that are folded in one transaction only
the newest signature of each journal is verified, before the transaction is committed. If one is
wrong, nothing of it is committed: the chunks are read again, and each signature is verified before
anything is believed.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ground.signatures.keys import PublicKey
from ledger.examination import JournalState, SignatureCheck, is_signed
from ledger.proofs import Proof, head_after

MOST_CHUNKS: Final = 8  # of one transaction

Journal = tuple[str, str]  # with its cluster


class _Deferred(NamedTuple):
    key: PublicKey
    proof: Proof
    digest: bytes
    head: bytes  # after the entry


class DeferredSignatures:
    """The signatures of the present transaction."""

    def __init__(self) -> None:
        self._signatures: dict[Journal, tuple[_Deferred, ...]] = {}
        self.chunks = 0

    def clear(self) -> None:
        self._signatures, self.chunks = {}, 0

    def copied(self) -> "DeferredSignatures":
        copy = DeferredSignatures()
        copy._signatures, copy.chunks = dict(self._signatures), self.chunks
        return copy

    def of(self, journal: Journal) -> SignatureCheck:
        """Returns a check that takes the journal's signatures for right until `hold` is called."""

        def check(state: JournalState, proof: Proof, digest: bytes) -> bool:
            head = head_after(proof.previous, digest)
            signature = _Deferred(PublicKey(state.key), proof, digest, head)
            earlier = self._signatures.get(journal, ())
            if earlier and earlier[-1].head == state.head:  # it is covered
                earlier = earlier[:-1]
            self._signatures[journal] = (*earlier, signature)
            return True

        return check

    def hold(self) -> bool:
        """Whether all of them are right."""
        return all(
            signature.proof.holds(signature.key, signature.digest)
            for signatures in self._signatures.values()
            for signature in signatures
        )


Checks = Callable[[Journal], SignatureCheck]


def at_once(_: Journal) -> SignatureCheck:
    """Verifies each signature before the entry is believed."""
    return is_signed

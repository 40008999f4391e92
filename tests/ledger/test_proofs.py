"""Proofs of ledger entries, and ids that name a key."""

import hashlib

from ground.signatures.keys import SigningKey
from ledger.proofs import DOMAIN, KEY_SECONDS, NO_HEAD, Chain, Proof, digest_of, head_after
from ledger.source_ids import journal_id, new_source_id, owner_of

KEY = SigningKey.new()


def test_a_signature_covers_the_entries_before_it() -> None:
    chain = Chain(KEY)
    chain.add(b"first")
    proof = chain.prove(b"second", 0)
    head = hashlib.sha256(NO_HEAD + hashlib.sha256(b"first").digest()).digest()
    assert proof.previous == head
    assert chain.head == head_after(head, digest_of(b"second"))
    assert KEY.public.verifies(proof.signature, DOMAIN + chain.head)
    assert proof.holds(KEY.public, digest_of(b"second"))
    assert not proof.holds(KEY.public, digest_of(b"Second"))
    assert not proof.holds(SigningKey.new().public, digest_of(b"second"))


def test_the_key_comes_at_first_and_once_an_hour() -> None:
    chain = Chain(KEY)
    times = (5, 65, 5 + KEY_SECONDS - 1, 5 + KEY_SECONDS, 6 + KEY_SECONDS)
    proofs = [chain.prove(b"entry", now) for now in times]
    assert [proof.key is not None for proof in proofs] == [True, False, False, True, False]
    assert proofs[0].key == KEY.public


def test_a_proof_as_bytes() -> None:
    chain = Chain(KEY)
    for now in (0, 60):
        proof = chain.prove(b"entry", now)
        assert Proof.decode(proof.encoded) == proof
        assert Proof.decode(b"\x02" + proof.encoded[1:]) is None
        assert Proof.decode(proof.encoded[:-1]) is None
    assert Proof.decode(b"") is None


def test_ids_name_the_key() -> None:
    journal = journal_id(KEY.public)
    sources = {new_source_id(KEY.public) for _ in range(100)}
    assert len(journal) == 20
    assert len(sources) == 100
    assert {owner_of(source) for source in sources} == {journal[:10]}
    assert journal_id(SigningKey.new().public)[:10] != journal[:10]

"""Signatures that are verified once several chunks have been folded: nothing that rests on a wrong
one is ever committed."""

from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from audit.errors import WrongSignature
from audit.reconciling.findings import State
from audit.reconciling.verdict import reconcile
from audit.store.entries.deferred_signatures import MOST_CHUNKS
from ground.signatures.keys import SigningKey
from ledger.examination import ProofFaultKind
from ledger.proof_columns import PROOF_TYPE
from ledger.proofs import Chain, Proof, digest_of
from ledger.reading import LedgerPositions
from tests.audit.audited_ledger import FIRST, NOW, AuditedLedger
from tests.audit.log_entries import TIME, agent, broker, lines, load, shipped
from tests.audit.store.said import CLUSTER, MINUTE, Json, body, passage, window

LINES = 10


def at(offset: int) -> LedgerPositions:
    return LedgerPositions("cluster", "topic", {0: offset})


def proven(chain: Chain, said: Json) -> tuple[Json, bytes]:
    return said, chain.prove(msgspec.json.encode(said), 0.0).encoded


def forged(chain: Chain, said: Json) -> tuple[Json, bytes]:
    """Continues the chain, as anybody can who has read it, but with a thief's signature."""
    proof = Chain(SigningKey.new(), chain.head).prove(msgspec.json.encode(said), 0.0)
    return said, Proof(proof.previous, proof.signature).encoded


def fold(
    ledger: AuditedLedger, *entries: tuple[Json, bytes], offset: int, is_behind: bool = True
) -> Any:
    rows = [
        {"digest": digest_of(msgspec.json.encode(said)), "proof": proof} for said, proof in entries
    ]
    return ledger.store.fold(
        *(CLUSTER, body([said for said, _ in entries]), at(offset), pa.array(rows, PROOF_TYPE)),
        is_behind=is_behind,
    )


def kinds(ledger: AuditedLedger) -> list[str]:
    return [fault.kind for fault in ledger.reading.proof_faults(CLUSTER)]


def begun(ledger: AuditedLedger, chain: Chain) -> None:
    """All lines have landed, of an agent that is not done."""
    runs = [lines(0, LINES)]
    landed = load(1, passage(0, 0, LINES, [window(TIME, LINES)], runs=runs, leader_epoch=0))
    fold(
        ledger,
        proven(chain, agent(0, shipped(0, 0, LINES), until=FIRST + MINUTE)),
        proven(Chain(SigningKey.new()), broker(0, (0, LINES, TIME, 0))),
        proven(Chain(SigningKey.new()), landed),
        offset=1,
        is_behind=False,
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        yield ledger


def test_several_chunks_are_committed_together(ledger: AuditedLedger) -> None:
    chain = Chain(SigningKey.new())
    numbers = count(1)
    begun(ledger, chain)
    for number in range(1, MOST_CHUNKS):
        said = agent(next(numbers), until=FIRST + MINUTE + number)
        assert fold(ledger, proven(chain, said), offset=1 + number).entries == 1
    assert reconcile(ledger.picture()).state is State.PENDING
    assert fold(ledger, proven(chain, agent(next(numbers), until=NOW)), offset=50).entries == 1
    assert reconcile(ledger.picture()).state is State.COMPLETE  # the last of as many as may wait
    fold(ledger, proven(chain, agent(next(numbers), until=NOW)), offset=60)
    ledger.store.expire(NOW)  # whatever else is stored ends the transaction, too
    assert ledger.store.positions(CLUSTER) == at(60)
    assert kinds(ledger) == []


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("is_covered", [False, True])
def test_nothing_is_committed_that_rests_on_a_wrong_signature(
    ledger: AuditedLedger, *, is_new: bool, is_covered: bool
) -> None:
    chain = Chain(SigningKey.new())
    begun(ledger, chain)
    if is_new:  # a journal whose first entries are a thief's, under the key of another
        chain = Chain(SigningKey.new())
        said = agent(0, until=NOW, journal="new")
        stolen = forged(chain, said)[1] + chain.key.public.raw
        fold(ledger, (said, stolen), offset=2)
    else:
        fold(ledger, forged(chain, agent(1, until=NOW)), offset=2)
    if is_covered:  # by the true entry of that number, which shows the other one
        journal, seq = ("new", 0) if is_new else ("agent", 1)
        true = proven(chain, agent(seq, until=FIRST + MINUTE, journal=journal))
        with pytest.raises(WrongSignature):
            fold(ledger, true, offset=3, is_behind=False)
    else:
        with pytest.raises(WrongSignature):
            ledger.store.expire(NOW)
    assert reconcile(ledger.picture()).state is State.PENDING
    assert ledger.store.positions(CLUSTER) == at(1)
    assert kinds(ledger) == []
    # Read again, the forged entry is named, and counts for nothing.
    ledger.store.defers = False
    again = (said, stolen) if is_new else forged(chain, agent(1, until=NOW))
    assert fold(ledger, again, offset=2).left_out == 1
    assert kinds(ledger) == [ProofFaultKind.FORGED]
    assert reconcile(ledger.picture()).state is State.PENDING


def test_a_chunk_that_fails_takes_none_before_it_along(ledger: AuditedLedger) -> None:
    chain = Chain(SigningKey.new())
    begun(ledger, chain)
    fold(ledger, proven(chain, agent(1, until=FIRST + MINUTE)), offset=2)
    with pytest.raises(AttributeError):
        ledger.store.fold(CLUSTER, ["not", "entries"], at(3), is_behind=True)
    assert fold(ledger, proven(chain, agent(2, until=NOW)), offset=3, is_behind=False).entries == 1
    assert ledger.store.positions(CLUSTER) == at(3)
    assert reconcile(ledger.picture()).state is State.COMPLETE


def test_a_wrong_signature_is_found_when_the_database_is_closed(tmp_path: Path) -> None:
    chain = Chain(SigningKey.new())
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        begun(ledger, chain)
        fold(ledger, forged(chain, agent(1, until=NOW)), offset=2)
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        assert ledger.store.positions(CLUSTER) == at(1)
        fold(ledger, proven(chain, agent(1, until=NOW)), offset=2)
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        assert ledger.store.positions(CLUSTER) == at(2)

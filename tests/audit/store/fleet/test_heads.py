"""Which entry of an agent is kept for heads files, and which agents have none."""

import hashlib
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pytest

from audit.store.fleet.heads import MOST_BYTES, KnownAgent
from ground.signatures.keys import SigningKey
from ledger.proof_columns import PROOF_TYPE
from ledger.proofs import Chain
from ledger.reading import LedgerPositions
from tests.audit.audited_ledger import NOW, AuditedLedger
from tests.audit.store.said import BEGIN, CLUSTER, MINUTE, TOPIC, Json, body, entry

AGENT: Final = "agent"

Signed = tuple[Json, bytes, bytes | None]


class Journal:
    """Signs entries of one journal with numbers."""

    def __init__(self, name: str = AGENT, tier: str = "agent") -> None:
        self.name = name
        self.tier = tier
        self.chain = Chain(SigningKey.new())
        self.seq = -1

    def beat(self, until: int, *topics: str, padding: int = 0, signed: bool = True) -> Signed:
        self.seq += 1
        beats = [{"until": until, "topics": list(topics), "lag_bytes": 0}]
        time = BEGIN + self.seq * MINUTE
        content = entry(self.tier, self.name, self.seq, time, heartbeats=beats)
        value = msgspec.json.encode(content) + b" " * padding
        return content, value, self.chain.prove(value, 0.0).encoded if signed else None


def fold(ledger: AuditedLedger, *entries: Signed) -> None:
    rows = [
        {"digest": hashlib.sha256(value).digest(), "proof": proof, "value": value}
        for _, value, proof in entries
    ]
    proofs = pa.array(rows, PROOF_TYPE)
    content = body([content for content, _, _ in entries])
    ledger.store.fold(CLUSTER, content, LedgerPositions(), proofs)


def known(ledger: AuditedLedger) -> KnownAgent:
    (agent,) = ledger.reading.heads(CLUSTER)
    return agent


@pytest.mark.parametrize("together", [True, False])
def test_the_newest_is_kept_in_any_order(tmp_path: Path, together: bool) -> None:
    journal = Journal()
    beats = [journal.beat(BEGIN + at, TOPIC) for at in range(1, 4)]
    chunks = [beats] if together else [beats[:1], beats[2:], beats[1:2], beats]
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        for chunk in chunks:
            fold(ledger, *chunk)
        agent = known(ledger)
        assert (agent.agent, agent.host, agent.topics) == (AGENT, f"host-of-{AGENT}", (TOPIC,))
        assert agent.key == journal.chain.key.public.raw
        assert agent.head is not None
        assert (agent.head.seq, agent.head.value, agent.head.proof) == (2, *beats[2][1:])


def test_only_what_the_agent_has_proven_is_kept(tmp_path: Path) -> None:
    journal, thief = Journal(), Journal()
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        fold(ledger, first := journal.beat(BEGIN + 1, TOPIC))
        thief.seq = 4
        fold(ledger, thief.beat(BEGIN + 2, TOPIC))
        content, value, _ = thief.beat(BEGIN + 3, TOPIC)
        fold(ledger, (content, value, first[2]))
        # It names topics, and no time.
        fold(ledger, journal.beat(0, TOPIC))
        head = known(ledger).head
        assert head is not None
        assert (head.seq, head.value) == (0, first[1])


def test_one_that_is_too_large_takes_the_place_without_its_bytes(tmp_path: Path) -> None:
    journal = Journal()
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        fold(ledger, journal.beat(BEGIN + 1, TOPIC))
        fold(ledger, journal.beat(BEGIN + 2, TOPIC, padding=MOST_BYTES))
        head = known(ledger).head
        assert head is not None
        assert (head.seq, head.value) == (1, None)
        fold(ledger, last := journal.beat(BEGIN + 3))
        head = known(ledger).head
        assert head is not None
        assert head.value == last[1]


def test_agents_without_a_key_have_none(tmp_path: Path) -> None:
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        fold(ledger, Journal().beat(BEGIN + 1, TOPIC, signed=False))
        agent = known(ledger)
        assert (agent.key, agent.head, agent.retired) == (None, None, None)


def test_a_retired_agent_is_known_with_the_reason(tmp_path: Path) -> None:
    statement: dict[str, Any] = {
        "host": f"host-of-{AGENT}", "agent": "", "since": BEGIN, "reason": "sold", "operator": "al"
    }  # fmt: skip
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        fold(ledger, Journal().beat(BEGIN + 1, TOPIC))
        ledger.fold(entry("operator", "operator", 0, BEGIN + 5 * MINUTE, retired=[statement]))
        retired = known(ledger).retired
        assert retired is not None
        assert retired.startswith("sold")


def test_they_expire_with_their_agents(tmp_path: Path) -> None:
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        fold(ledger, Journal().beat(BEGIN + 1, TOPIC))
        ledger.store.expire(NOW + 40 * 86_400_000)
        assert ledger.reading.heads(CLUSTER) == []
        (count,) = ledger.store._connection.execute("SELECT count(*) FROM heads").fetchone()
        assert count == 0

"""Entries that somebody else writes in the name of a journal with a key: they count for nothing,
take no number, and are named; what was altered before it could be known keeps its hours open."""

import hashlib
import logging
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from audit.reconciling.findings import FaultKind, State
from audit.reconciling.topic_verdict import TopicVerdict
from audit.reconciling.verdict import reconcile
from audit.store.entries.examining import SigningPolicy
from audit.store.rows import Touched
from ground.signatures.keys import PublicKey, SigningKey
from ledger.examination import ProofFaultKind
from ledger.proof_columns import PROOF_TYPE
from ledger.proofs import Chain
from ledger.reading import LedgerPositions
from ledger.source_ids import new_source_id
from tests.audit.audited_ledger import DAY, FIRST, KEY, NOW, AuditedLedger
from tests.audit.log_entries import TIME, agent, broker, lines, load, operator, shipped
from tests.audit.store.said import CLUSTER, HOUR, MINUTE, Json, body, entry, passage, run, window

LINES = 10
NO_PROOF = None

Signed = tuple[Json, bytes | None]


class Journals:
    """The chains of journals, by name."""

    def __init__(self) -> None:
        self._chains: dict[str, Chain] = {}

    def prove(self, *entries: Json) -> list[Signed]:
        """With a proof for each; an agent's without heartbeats have none."""
        return [self._proven(each) for each in entries]

    def key_of(self, journal: str) -> PublicKey:
        return self._chains[journal].key.public

    def chain(self, journal: str) -> Chain:
        return self._chains[journal]

    def begin(self, journal: str, key: SigningKey) -> None:
        """From here on the journal is signed with this key, by a chain that begins anew."""
        self._chains[journal] = Chain(key)

    def _proven(self, said: Json) -> Signed:
        journal = said["header"]["source"]
        chain = self._chains.setdefault(journal, Chain(SigningKey.new()))
        value = value_of(said)
        if said["tier"] == "agent" and not said.get("heartbeats"):
            chain.add(value)
            return said, NO_PROOF
        return said, chain.prove(value, 0.0).encoded


def value_of(said: Json) -> bytes:
    return msgspec.json.encode(said)


def by_a_thief(said: Json) -> Signed:
    return said, Chain(SigningKey.new()).prove(value_of(said), 0.0).encoded


def unsigned(said: Json) -> Signed:
    return said, NO_PROOF


def with_proof_of(said: Json, other: Signed) -> Signed:
    return said, other[1]


def fold(ledger: AuditedLedger, *entries: Signed) -> Touched:
    digests = [hashlib.sha256(value_of(said)).digest() for said, _ in entries]
    rows = [
        {"digest": digest, "proof": proof}
        for digest, (_, proof) in zip(digests, entries, strict=True)
    ]
    proofs = pa.array(rows, PROOF_TYPE)
    return ledger.store.fold(
        CLUSTER, body([said for said, _ in entries]), LedgerPositions(), proofs
    )


def begun(journals: Journals) -> list[Signed]:
    """A journal of each program: all lines have landed, and the hour is complete."""
    return journals.prove(
        agent(0, shipped(0, 0, LINES), until=FIRST + 2 * MINUTE),
        broker(0, (0, LINES, TIME, 0)),
        landed(1),
    )


def landed(number: int, first: int = 0, count: int = LINES) -> Json:
    runs = [lines(first, count)]
    return load(number, passage(0, first, count, [window(TIME, count)], runs=runs, leader_epoch=0))


def without_heartbeats(number: int, *passages: Json, journal: str = "agent") -> Json:
    return entry("agent", journal, number, TIME, passages=list(passages))


def verdict_of(ledger: AuditedLedger) -> TopicVerdict:
    return reconcile(ledger.picture())


def faults(ledger: AuditedLedger) -> list[tuple[Any, ...]]:
    return [
        (fault.kind, fault.journal, fault.host, fault.first, fault.entries)
        for fault in ledger.reading.proof_faults(CLUSTER)
    ]


def test_signed_journals_make_an_hour_complete(tmp_path: Path) -> None:
    journals = Journals()
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        for each in [*begun(journals), *journals.prove(agent(1, until=NOW))]:
            assert fold(ledger, each).entries == 1
        assert (verdict_of(ledger).state, faults(ledger)) == (State.COMPLETE, [])


FORGERIES = {
    "a heartbeat": agent(1, until=NOW),
    "a passage with a heartbeat": agent(1, shipped(LINES, LINES, 5), until=NOW),
    "what a broker counted": broker(1, (LINES, 5, TIME, 0)),
    "a load": landed(2, LINES, 5),
    "a retirement": entry("operator", "agent", 1, TIME, retired=[]),
}


@pytest.mark.parametrize("name", FORGERIES)
@pytest.mark.parametrize("signed", ["not at all", "by a thief", "with another entry's proof"])
def test_a_forged_entry_counts_for_nothing_and_takes_no_number(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, signed: str
) -> None:
    """Then the true entry of the same number is believed."""
    forged, journals = FORGERIES[name], Journals()
    journal = forged["header"]["source"]
    with AuditedLedger(tmp_path, clock=NOW) as ledger, caplog.at_level(logging.WARNING, "audit"):
        true = begun(journals)
        fold(ledger, *true)
        before = verdict_of(ledger)
        attack = {
            "not at all": unsigned(forged),
            "by a thief": by_a_thief(forged),
            "with another entry's proof": with_proof_of(forged, true[0]),
        }[signed]
        touched = fold(ledger, attack)
        assert (touched.entries, touched.left_out) == (0, 1)
        assert verdict_of(ledger) == before
        kind = "unknown key" if signed == "by a thief" else "forged"
        if signed == "with another entry's proof" and journal != "agent":
            kind = "unknown key"  # it has the agent's key
        kinds = {fault[0] for fault in faults(ledger)}
        assert kinds <= {kind, "forged"}
        ((_, named, host, first, entries),) = faults(ledger)
        assert (named, host) == (journal, f"host-of-{journal}")
        assert (first, entries) == (forged["header"]["seq"], 1)
        (line,) = [each.getMessage() for each in caplog.records]
        assert f"journal='{journal}'" in line
        # What the owners write next.
        assert fold(ledger, *journals.prove(agent(1, until=NOW), broker(1), landed(2, 0, 0)))
        assert verdict_of(ledger).state is State.COMPLETE


def test_a_forged_entry_does_not_move_a_journal_to_another_host(tmp_path: Path) -> None:
    journals = Journals()
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        fold(ledger, *begun(journals))
        said = agent(1, until=NOW)
        said["header"]["host"] = "elsewhere"
        pending = entry("agent", "agent", 1, TIME + 1, passages=[])
        pending["header"]["host"] = "elsewhere"
        fold(ledger, unsigned(said), unsigned(pending))
        assert [fault[2] for fault in faults(ledger)] == ["host-of-agent"]
        (key,) = [key for key in ledger.reading.journal_keys(CLUSTER) if key.journal == "agent"]
        assert key.host == "host-of-agent"


def test_a_forgery_that_comes_again_is_one_fault(tmp_path: Path) -> None:
    journals = Journals()
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        everything = [*begun(journals), unsigned(agent(1, until=NOW + 1))]
        everything += journals.prove(agent(1, until=NOW))
        for _ in range(3):
            fold(ledger, *everything)
            assert len(faults(ledger)) == 1
            assert verdict_of(ledger).state is State.COMPLETE


@pytest.mark.parametrize("together", [True, False])
def test_an_altered_stretch_keeps_its_hours_open(tmp_path: Path, together: bool) -> None:
    """An agent's passage is replaced by one of fewer lines, as whoever hides a loss would do."""
    journals = Journals()
    passage_entry = entry("agent", "agent", 1, TIME + 1, passages=[shipped(LINES, LINES, 5)])
    fewer = entry("agent", "agent", 1, TIME + 1, passages=[])
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        fold(ledger, *begun(journals))
        journals.prove(passage_entry)
        rest = [unsigned(fewer), *journals.prove(agent(2, until=NOW, time=TIME + 2))]
        for part in [rest] if together else [[each] for each in rest]:
            fold(ledger, *part)
        verdict = verdict_of(ledger)
        assert not any(each.state is State.COMPLETE for each in verdict.windows)
        (finding,) = [each for each in verdict.findings if each.kind is FaultKind.UNPROVEN]
        assert (finding.source, finding.seq, finding.host) == ("agent", 1, "host-of-agent")
        assert finding.words == (
            "entry 1 in the journal agent of the agent on host-of-agent: somebody has changed,"
            " removed or invented entries there, as the journal's signatures do not cover them;"
            " nothing is proven from 2025-10-09 09:01:00 to 2025-10-09 09:01:00"
        )
        assert faults(ledger) == [("altered", "agent", "host-of-agent", 1, 1)]
        # Later hours are not affected, and an operator may accept it.
        later = reconcile(ledger.picture(FIRST + HOUR, FIRST + 2 * HOUR, NOW))
        assert later.findings == []
        accepted = operator(runs=[run("agent", 1, 1)])
        fold(ledger, unsigned(accepted))
        (finding,) = [
            each for each in verdict_of(ledger).findings if each.kind is FaultKind.UNPROVEN
        ]
        assert finding.accepted


def test_the_true_one_of_two_unsigned_entries_is_told_by_the_chain(tmp_path: Path) -> None:
    journals = Journals()
    true = entry("agent", "agent", 1, TIME + 1, passages=[shipped(LINES, LINES, 5)])
    invented = entry("agent", "agent", 1, TIME + 1, passages=[])
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        fold(ledger, *begun(journals))
        signed = journals.prove(true, agent(2, until=NOW, time=TIME + 2))
        fold(ledger, unsigned(invented), *signed)
        assert faults(ledger) == [("forged", "agent", "host-of-agent", 1, 1)]
        fold(ledger, *journals.prove(broker(1, (LINES, 5, TIME, 0)), landed(2, LINES, 5)))
        verdict = verdict_of(ledger)
        assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


@pytest.mark.parametrize("is_signed", [True, False])
def test_another_journal_cannot_claim_a_source(tmp_path: Path, is_signed: bool) -> None:
    """Once the source's owner is known; sources of unknown owners, as of older agents, are free."""
    journals = Journals()
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        fold(ledger, *begun(journals))
        source = new_source_id(journals.key_of("agent"))
        owned = passage(0, LINES, 5, [window(TIME, 5)], runs=[lines(0, 5, source)], leader_epoch=0)
        claim = agent(0, owned, until=NOW, journal="other")
        attack = journals.prove(claim) if is_signed else [unsigned(claim)]
        assert fold(ledger, *attack).left_out == 1
        assert faults(ledger) == [("claims another's source", "other", "host-of-other", 0, 1)]
        assert fold(ledger, *journals.prove(agent(1, owned, until=NOW))).entries == 1
        free = agent(1, shipped(LINES, LINES, 5), until=NOW, journal="other")
        more = journals.prove(free) if is_signed else [unsigned(free)]
        assert fold(ledger, *more).entries == 1


def test_a_journal_that_was_silent_for_long_has_the_same_key(tmp_path: Path) -> None:
    journals = Journals()
    with AuditedLedger(tmp_path, clock=NOW + 60 * DAY) as ledger:
        fold(ledger, *begun(journals))
        ledger.store.expire(NOW + 50 * DAY)
        late = NOW + 60 * DAY
        assert fold(ledger, by_a_thief(agent(1, until=late, time=late))).left_out == 1
        assert fold(ledger, *journals.prove(agent(1, until=late, time=late))).entries == 1


def test_unsigned_journals_may_be_rejected(tmp_path: Path) -> None:
    journals = Journals()
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        ledger.store.policy = SigningPolicy(requires_signatures=True)
        for seq in range(3):
            assert fold(ledger, unsigned(agent(seq, until=NOW, journal="old"))).left_out == 1
        assert fold(ledger, *begun(journals)).left_out == 0
        # One fault, which becomes longer.
        assert faults(ledger) == [(ProofFaultKind.UNSIGNED, "old", "host-of-old", 0, 3)]
        states = {row.journal: row.state for row in ledger.reading.signed_journals()}
        assert states == {
            "agent": "signed",
            "broker": "signed",
            "loader": "signed",
            "old": "rejected",
        }


def test_a_key_signs_for_the_programs_of_one_tier(tmp_path: Path) -> None:
    journals = Journals()
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        fold(ledger, *begun(journals))
        key = journals.chain("agent").key
        counted = broker(0, (LINES, 5, TIME, 0), journal="counter")
        journals.begin("counter", key)
        # In a journal of its own, and in one that has no key yet.
        fold(ledger, unsigned(broker(0, (0, LINES, TIME, 0), journal="older")))
        journals.begin("older", key)
        for invented in (counted, broker(1, (LINES, 5, TIME, 0), journal="older")):
            touched = fold(ledger, *journals.prove(invented))
            assert (touched.entries, touched.left_out) == (0, 1)
        # The agent's journal does not speak for a broker either, nor for an operator.
        accepted = entry("operator", "agent", 2, TIME, accepted=[operator()["accepted"][0]])
        for invented in (broker(1, (LINES, 5, TIME, 0), journal="agent"), accepted):
            touched = fold(ledger, *journals.prove(invented))
            assert (touched.entries, touched.left_out) == (0, 1)
        assert {(fault[0], fault[1]) for fault in faults(ledger)} == {
            (ProofFaultKind.TIER, journal) for journal in ("counter", "older", "agent")
        }
        # The chain goes on, and the other broker's journal is believed as before.
        assert fold(ledger, *journals.prove(agent(3, until=NOW))).entries == 1
        assert fold(ledger, unsigned(broker(1, (LINES, 5, TIME, 0), journal="older"))).entries == 1


def test_an_unsigned_agents_entry_in_a_brokers_journal_is_forged(tmp_path: Path) -> None:
    journals = Journals()
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        fold(ledger, *begun(journals))
        invented = without_heartbeats(1, shipped(LINES, LINES, 5), journal="broker")
        assert fold(ledger, unsigned(invented)).left_out == 1
        assert [fault[:2] for fault in faults(ledger)] == [(ProofFaultKind.FORGED, "broker")]
        assert fold(ledger, *journals.prove(broker(1, (LINES, 5, TIME, 0)))).entries == 1
        assert len(faults(ledger)) == 1


def test_a_chain_that_begins_anew_after_an_older_release_is_told_from_altered_entries(
    tmp_path: Path,
) -> None:
    journals = Journals()
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        fold(ledger, *begun(journals))
        # A release without proofs ran for less than a window; then the newer one again.
        fold(ledger, unsigned(without_heartbeats(1, shipped(LINES, LINES, 5))))
        journals.begin("agent", journals.chain("agent").key)
        fold(ledger, *journals.prove(agent(2, until=FIRST + 3 * MINUTE)))
        assert [fault[0] for fault in faults(ledger)] == [ProofFaultKind.BEGUN_ANEW]
        (finding,) = [
            finding
            for finding in verdict_of(ledger).findings
            if finding.kind is FaultKind.UNPROVEN and finding.is_open
        ]
        assert "has begun its chain of signatures anew" in finding.words
        assert "somebody has changed" not in finding.words


def test_a_topic_tells_which_of_its_writers_do_not_sign_or_send_no_digests(tmp_path: Path) -> None:
    journals = Journals()
    hour = (KEY, FIRST, FIRST + HOUR)
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        digested = shipped(0, 0, LINES) | {"digest": bytes(16)}
        fold(ledger, *journals.prove(agent(0, digested, until=FIRST + MINUTE)))
        assert ledger.reading.writers(*hour) == [("agent", 1, 0, 0)]
        old = agent(0, shipped(0, LINES, 5), until=FIRST + MINUTE, journal="old")
        fold(ledger, unsigned(old), *journals.prove(broker(0, (0, LINES, TIME, 0))))
        assert ledger.reading.writers(*hour) == [("agent", 2, 1, 1), ("broker", 1, 0, 0)]
        # What a journal stated before it had a key stays unsigned.
        fold(ledger, *journals.prove(agent(1, until=FIRST + 2 * HOUR, journal="old", time=NOW)))
        assert ledger.reading.writers(*hour)[0] == ("agent", 2, 1, 1)
        later = (KEY, NOW, NOW + HOUR)
        assert ledger.reading.writers(*later) == [("agent", 1, 0, 0)]


def test_keys_are_listed(tmp_path: Path) -> None:
    journals = Journals()
    with AuditedLedger(tmp_path, clock=NOW) as ledger:
        fold(ledger, *begun(journals), unsigned(agent(0, until=NOW, journal="old")))
        keys = ledger.reading.journal_keys(CLUSTER)
        listed = [(key.journal, key.host, key.tier, bool(key.fingerprint)) for key in keys]
        assert listed == [
            ("agent", "host-of-agent", "agent", True),
            ("broker", "host-of-broker", "broker", True),
            ("loader", "host-of-loader", "hdfs", True),
            ("old", "host-of-old", "agent", False),
        ]

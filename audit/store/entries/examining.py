"""Examines the proofs of a chunk's entries before they are folded, and keeps what is known of each
journal's key and which entries were forged or altered (ledger/examination.py).

A key is that of one program, so it signs for one tier: the tier of the first entry that it has
signed. Programs other than agents may also sign operators' statements. So the key of an agent's
host cannot sign for a broker, a loader or an operator.

Forged entries and those of unknown keys are not folded and take no number of their journal. Keys
are kept by the journals' names, longer than journals: a journal that is heard again after a long
silence has the same key.
"""

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.reconciling.picture import Disputed, TierKind
from audit.store.database import changed
from audit.store.entries import disputes
from audit.store.entries.deferred_signatures import Checks, at_once
from audit.store.folding.columns import Entries, Numbers, numbers, parents, texts
from audit.store.folding.keyed_intervals import Mask, grouped
from ground.known_types import known_type
from ground.signatures.keys import KEY_BYTES, PublicKey
from ledger.examination import (
    Examined,
    FirstUse,
    JournalState,
    ProofFault,
    ProofFaultKind,
    Rows,
    Standing,
    Trust,
    Verdict,
    examined,
    examined_quickly,
    fingerprint,
)
from ledger.proofs import LONG
from ledger.source_ids import journal_id, owner_of

_MOST: Final = 1_000  # faults of one journal
_MOST_NAMED: Final = 10  # of a chunk, in the log
_UNKNOWN: Final = "unknown"  # the tier of an entry that a later release wrote
_OPERATOR: Final = "operator"
_KEEP: Final = """
INSERT INTO journal_keys VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET tier = coalesce(tier, excluded.tier),
    host = coalesce(excluded.host, host), owner = excluded.owner,
    key = excluded.key, since = excluded.since, time = excluded.time, state = excluded.state
"""
_KEEP_FAULT: Final = """
INSERT OR IGNORE INTO proof_faults SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11
    WHERE (SELECT count(*) FROM proof_faults WHERE cluster = ?1 AND journal = ?2) < ?12
"""
_PROLONG_FAULT: Final = """
UPDATE proof_faults SET end_seq = max(end_seq, ?5), until = max(until, ?9), said = max(said, ?10)
    WHERE cluster = ?1 AND journal = ?2 AND kind = ?3
"""
_HOURS: Final = """
SELECT DISTINCT hours.topic, hour FROM hours JOIN topics ON topics.id = hours.topic
    JOIN topic_names ON topic_names.id = name
    WHERE cluster = ? AND hour > ? - 3600000 AND hour <= ?
"""
_ALTERED: Final = """
SELECT proof_faults.journal, proof_faults.tier, proof_faults.host, proof_faults.seq,
    proof_faults.end_seq, since, until, kind
    FROM proof_faults LEFT JOIN journals USING (cluster, journal)
    WHERE cluster = ?1 AND kind IN ('altered', 'chain begun anew')
    AND (proof_faults.tier = 'broker' OR EXISTS (SELECT 1 FROM journal_topics
        WHERE name = ?2 AND journal_topics.journal = journals.id)
    OR EXISTS (SELECT 1 FROM agent_topics WHERE name = ?2 AND agent_topics.journal = journals.id))
    ORDER BY proof_faults.journal, seq
"""

log = logging.getLogger(__name__)


class SigningPolicy(msgspec.Struct, frozen=True):
    """Which keys are trusted, and whether unsigned journals are rejected."""

    trust: Trust = msgspec.field(default_factory=FirstUse)
    requires_signatures: bool = False


class ExaminedEntries(msgspec.Struct, frozen=True):
    """Which entries of a chunk are believed; which of them replace others that were folded before;
    and the hours of topics to judge again."""

    believed: Mask
    displacing: Mask
    hours: set[tuple[int, int]] = set()

    @property
    def rejected(self) -> int:
        return int((~self.believed).sum())


def examine(
    connection: sqlite3.Connection,
    cluster: str,
    entries: Entries,
    proofs: pa.StructArray | None,
    *,
    policy: SigningPolicy,
    checks: Checks = at_once,
) -> ExaminedEntries:
    """Examines a chunk's entries, and keeps the keys of their journals, and faults. Without
    `proofs`, none of them has one. `checks` verifies the signatures of each journal."""
    count = len(entries)
    verdicts = np.zeros(count, np.int64)
    hours: set[tuple[int, int]] = set()
    chunk = _ExaminedChunk(connection, cluster, entries, proofs, policy.trust)
    for name, indexes, result in chunk.results(checks):
        verdicts[indexes] = result.verdicts
        hours |= chunk.keep(name, indexes, result)
    believed = verdicts < Verdict.FORGED
    for kind, is_bad in (
        (ProofFaultKind.TIER, chunk.is_of_other_tier()),
        (ProofFaultKind.CLAIMS, chunk.foreign_claims()),
        (ProofFaultKind.UNSIGNED, (verdicts == Verdict.UNSIGNED) & policy.requires_signatures),
    ):
        is_rejected = is_bad & believed
        believed &= ~is_rejected
        chunk.keep_rejected(kind, np.flatnonzero(is_rejected))
    return ExaminedEntries(believed, verdicts == Verdict.DISPLACING, hours)


class _ExaminedChunk:
    """A chunk of entries with the states of its journals."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        cluster: str,
        entries: Entries,
        proofs: pa.StructArray | None,
        trust: Trust,
    ) -> None:
        self._connection = connection
        self._cluster = cluster
        self._entries = entries
        self._proofs = proofs
        self._trust = trust
        self._states, self._tiers = _states(connection, cluster, entries.journal.values)
        self._logged = 0

    def results(self, checks: Checks) -> "list[tuple[str, list[int], Examined]]":
        """Examines the journals that have a key or a proof. The others are unsigned."""
        groups = self._groups()
        if not groups:
            return []
        rows = self._rows()
        results: list[tuple[str, list[int], Examined]] = []
        slow_groups: list[tuple[str, list[int]]] = []
        for name, indexes in groups:
            state = self._states.get(name)
            quick_result = None
            if state is not None:
                check = checks((self._cluster, name))
                quick_result = examined_quickly(state, rows, indexes, self._trust, check)
            if quick_result is None:
                slow_groups.append((name, indexes))
            else:
                results.append((name, indexes, quick_result))
        standings = self._standings(slow_groups)
        key_tiers = self._key_tiers(rows, slow_groups)
        for name, indexes in slow_groups:
            state = self._states.get(name)
            tier = self._tiers.get(name) or self._first_tier(rows, indexes)
            trust = TierTrust(self._trust, tier, key_tiers)
            result = examined(
                name,
                state,
                rows,
                indexes,
                standing=lambda index: standings.get(index, Standing.NEW),
                trust=trust,
                check=checks((self._cluster, name)),
            )
            if state is None and result.state is not None:
                key_tiers.setdefault(result.state.key, tier)
            faults = [_named(fault, trust) for fault in result.faults]
            results.append((name, indexes, result._replace(faults=faults)))
        return results

    def _first_tier(self, rows: Rows, indexes: Sequence[int]) -> str:
        """Returns the tier of the first entry that has a key with it."""
        for index in indexes:
            if len(rows.proofs[index] or b"") == LONG:
                return self._entries.tier.take(np.array([index]))[0]
        return ""

    def _key_tiers(self, rows: Rows, groups: Sequence[tuple[str, list[int]]]) -> dict[bytes, str]:
        """Returns the tiers of the keys in these entries, as far as they are known."""
        keys = {
            proof[-KEY_BYTES:]
            for _, indexes in groups
            for index in indexes
            if (proof := rows.proofs[index]) is not None and len(proof) == LONG
        }
        owners = msgspec.json.encode(sorted({_owner(key) for key in keys})).decode()
        known_tiers = self._connection.execute(
            "SELECT key, tier FROM journal_keys WHERE cluster = ? AND tier IS NOT NULL"
            " AND owner IN (SELECT value FROM json_each(?)) ORDER BY since DESC",
            (self._cluster, owners),
        )
        return {key: tier for key, tier in known_tiers if key in keys}

    def _groups(self) -> list[tuple[str, list[int]]]:
        entries = self._entries
        has_proof = np.zeros(len(entries), np.bool_)
        if self._proofs is not None:
            has_proof = self._proofs.field("proof").is_valid().to_numpy(zero_copy_only=False)
        names = entries.journal.values
        is_signed = np.array([name in self._states for name in names], np.bool_)
        is_signed[entries.journal.codes[has_proof]] = True
        is_signed &= np.array([bool(name) for name in names], np.bool_)
        rows = np.flatnonzero(is_signed[entries.journal.codes] & (entries.seq >= 0))
        if not len(rows):
            return []
        codes = entries.journal.codes[rows]
        order = np.argsort(codes, kind="stable")
        rows, codes = rows[order], codes[order]
        begins = np.flatnonzero(np.diff(codes, prepend=-1))
        ends = np.append(begins[1:], len(rows))
        return [
            (names[codes[begin]], rows[begin:end].tolist())
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]

    def _rows(self) -> Rows:
        entries = self._entries
        count = len(entries)
        is_agent = entries.of_tier(TierKind.AGENT) & ~self.is_of_other_tier()
        has_beats = numbers(pc.list_value_length(entries.body.field("heartbeats"))) > 0
        return Rows(
            entries.seq.tolist(),
            _digests(self._proofs, count),
            [None] * count if self._proofs is None else self._proofs.field("proof").to_pylist(),
            is_agent.tolist(),
            (is_agent & ~has_beats).tolist(),
            entries.host.take(np.arange(count)),
            entries.time.tolist(),
            _floors(entries).tolist(),
        )

    def _standings(self, groups: Sequence[tuple[str, list[int]]]) -> Mapping[int, Standing]:
        """Returns the standing of entries; NEW where none is given."""
        indexes = np.array([index for _, group in groups for index in group], np.int64)
        if not len(indexes):
            return {}
        query = (
            "SELECT journal, id FROM journals WHERE cluster = ?"
            " AND journal IN (SELECT value FROM json_each(?))"
        )
        names = msgspec.json.encode([name for name, _ in groups]).decode()
        ids = dict(self._connection.execute(query, (self._cluster, names)).fetchall())
        journal = np.repeat(
            np.array([ids.get(name, 0) for name, _ in groups], np.int64),
            [len(group) for _, group in groups],
        )
        is_known = journal > 0
        indexes, journal = indexes[is_known], journal[is_known]
        if not len(indexes):
            return {}
        standing = disputes.standing(self._connection, self._entries, indexes, journal)
        return {
            index: Standing(value)
            for index, value in zip(indexes.tolist(), standing.tolist(), strict=True)
            if value
        }

    def keep(self, name: str, indexes: Sequence[int], result: Examined) -> set[tuple[int, int]]:
        """Keeps a journal's state and faults, and returns the hours that these affect."""
        entries, state = self._entries, result.state
        if state is not None and state != self._states.get(name):
            tier = host = None  # other entries than proven ones may name any
            for index, verdict in zip(reversed(indexes), reversed(result.verdicts), strict=True):
                if verdict in {Verdict.PROVEN, Verdict.DISPLACING}:
                    tier = entries.tier.values[entries.tier.codes[index]]
                    host = entries.host.values[entries.host.codes[index]]
                    break
            values = (state.key, state.begin_time, state.time, msgspec.msgpack.encode(state))
            owner = _owner(state.key)
            self._connection.execute(_KEEP, (self._cluster, name, tier, host, owner, *values))
            self._states[name] = state
            if tier is not None:
                self._tiers.setdefault(name, tier)
        hours: set[tuple[int, int]] = set()
        for fault in result.faults:
            hours |= self._keep_fault(name, indexes, fault)
        return hours

    def is_of_other_tier(self) -> Mask:
        """Returns the mask of entries whose journal is that of a program of another tier."""
        entries = self._entries
        tiers = [self._tiers.get(name, "") for name in entries.journal.values]
        known_tiers = sorted(set(tiers) - {""})
        is_other = np.zeros(len(entries), np.bool_)
        for known in known_tiers:
            is_of_journal = np.array([tier == known for tier in tiers], np.bool_)
            is_allowed = np.array([_agrees(known, tier) for tier in entries.tier.values], np.bool_)
            is_other |= is_of_journal[entries.journal.codes] & ~is_allowed[entries.tier.codes]
        return is_other

    def foreign_claims(self) -> Mask:
        """Returns the mask of agents' entries with events of a source whose owner is known, and is
        another journal."""
        entries = self._entries
        is_foreign = np.zeros(len(entries), np.bool_)
        passages = entries.body.field("passages")
        runs = passages.flatten().field("runs")
        sources = texts(runs.flatten().field("source"))
        owners = [owner_of(source) for source in sources.values]
        known_owners = self._known_owners(owners)
        if not known_owners:
            return is_foreign
        names = {name: number for number, name in enumerate(sorted(known_owners), 1)}
        owner_of_source = np.array([names.get(owner, 0) for owner in owners], np.int64)
        owner_of_journal = np.array(
            [
                names.get(_owner(state.key), 0) if (state := self._states.get(name)) else 0
                for name in entries.journal.values
            ],
            np.int64,
        )
        entry = parents(passages)[parents(runs)]
        owner = owner_of_source[sources.codes]
        is_other = (owner > 0) & (owner != owner_of_journal[entries.journal.codes[entry]])
        is_foreign[entry[is_other]] = True
        return is_foreign & entries.of_tier(TierKind.AGENT)

    def _known_owners(self, owners: Sequence[str]) -> set[str]:
        rows = self._connection.execute(
            "SELECT DISTINCT owner FROM journal_keys WHERE cluster = ?"
            " AND owner IN (SELECT value FROM json_each(?))",
            (self._cluster, msgspec.json.encode(sorted(set(owners))).decode()),
        )
        return {owner for (owner,) in rows}

    def keep_rejected(self, kind: ProofFaultKind, rows: Numbers) -> None:
        """Keeps the faults of these entries. Their journals need not have a key. Of an unsigned
        journal there is one fault, which becomes longer."""
        entries = self._entries
        if kind is ProofFaultKind.UNSIGNED:
            grouping = grouped(entries.journal.codes[rows])
            firsts = grouping.least(entries.seq[rows]), grouping.least(entries.time[rows])
            lasts = grouping.most(entries.seq[rows]), grouping.most(entries.time[rows])
            columns = [grouping.last(), *firsts, *lasts]
        else:
            columns = [np.arange(len(rows)), *[entries.seq[rows], entries.time[rows]] * 2]
        for place, first, since, last, until in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            row = int(rows[place])
            (name,) = entries.journal.take(np.array([row]))
            fault = ProofFault(kind, first, last + 1, row, since, until)
            self._keep_fault(name, [row], fault)

    def _keep_fault(
        self, name: str, indexes: Sequence[int], fault: ProofFault
    ) -> set[tuple[int, int]]:
        row = np.array([fault.row if fault.row >= 0 else indexes[-1]])
        (tier,), (host,) = self._entries.tier.take(row), self._entries.host.take(row)
        known = self._connection.execute(
            "SELECT tier, host FROM journal_keys WHERE cluster = ? AND journal = ?",
            (self._cluster, name),
        ).fetchall()
        # A forged entry may name any tier and host.
        tier, host = known[0] if known else (tier, host)
        values = (self._cluster, name, fault.kind.value, fault.first, fault.end, tier, host)
        times = (fault.since, fault.until, self._entries.latest)
        if fault.kind is ProofFaultKind.UNSIGNED and changed(
            self._connection, _PROLONG_FAULT, (*values, *times)
        ):
            return set()
        if not changed(self._connection, _KEEP_FAULT, (*values, *times, fault.key, _MOST)):
            return set()
        self._logged += 1
        if self._logged <= _MOST_NAMED:
            log.warning(
                "%s cluster=%s journal=%.200a host=%.200a tier=%.20a seq=%d entries=%d key=%s",
                *(_LOGGED[fault.kind], self._cluster, name, host, tier, fault.first),
                *(fault.end - fault.first, fingerprint(fault.key)[:16] or "-"),
            )
        if fault.kind not in {ProofFaultKind.ALTERED, ProofFaultKind.BEGUN_ANEW}:
            return set()
        query_values = (self._cluster, fault.since, fault.until)
        return set(self._connection.execute(_HOURS, query_values).fetchall())


_LOGGED: Final = {
    ProofFaultKind.CLAIMS: "claims events of another journal's source, not counted",
    ProofFaultKind.FORGED: "forged statement, not counted",
    ProofFaultKind.ALTERED: "altered statements: the journal's signatures do not cover them",
    ProofFaultKind.UNKNOWN_KEY: "statement signed with an unknown key, not counted",
    ProofFaultKind.TIER: "statement of another tier than its journal's or its key's, not counted",
    ProofFaultKind.UNSIGNED: "unsigned statements, not counted",
    ProofFaultKind.BEGUN_ANEW: "the journal's chain begins anew: statements before are unproven",
}


class TierTrust(msgspec.Struct, frozen=True):
    """Trusts keys as another trust does, but for those of programs of another tier."""

    trust: Trust
    tier: str  # of the journal
    key_tiers: Mapping[bytes, str]

    @property
    def is_by_first_use(self) -> bool:
        return self.trust.is_by_first_use

    def is_of_other_tier(self, key: bytes) -> bool:
        return not _agrees(self.key_tiers.get(key, ""), self.tier)

    def accepts(self, key: bytes, host: str, time: int) -> bool:
        return not self.is_of_other_tier(key) and self.trust.accepts(key, host, time)

    def enrolled(self, host: str) -> Sequence[bytes]:
        return [key for key in self.trust.enrolled(host) if not self.is_of_other_tier(key)]


def _agrees(known: str, tier: str) -> bool:
    """Whether one program may write entries of both tiers; those of a later release are not
    understood, and not counted either."""
    if not {known, tier}.isdisjoint({"", _UNKNOWN}):
        return True
    return known == tier or (_OPERATOR in {known, tier} and TierKind.AGENT not in {known, tier})


def _named(fault: ProofFault, trust: TierTrust) -> ProofFault:
    is_of_tier = fault.kind is ProofFaultKind.UNKNOWN_KEY and trust.is_of_other_tier(fault.key)
    return fault._replace(kind=ProofFaultKind.TIER) if is_of_tier else fault


def altered(connection: sqlite3.Connection, cluster: str, name: int) -> list[Disputed]:
    """Returns the altered entries that affect a topic, by the id of its name."""
    return [
        Disputed(
            journal,
            TierKind(tier) if tier in set(TierKind) else TierKind.AGENT,
            host,
            first,
            end - first,
            since,
            until,
            begins_anew=kind == ProofFaultKind.BEGUN_ANEW,
        )
        for journal, tier, host, first, end, since, until, kind in connection.execute(
            _ALTERED, (cluster, name)
        )
    ]


def _states(
    connection: sqlite3.Connection, cluster: str, names: Sequence[str]
) -> tuple[dict[str, JournalState], dict[str, str]]:
    """Returns the states of journals, and their tiers."""
    rows = connection.execute(
        "SELECT journal, state, tier FROM journal_keys WHERE cluster = ?"
        " AND journal IN (SELECT value FROM json_each(?))",
        (cluster, msgspec.json.encode(names).decode()),
    )
    states: dict[str, JournalState] = {}
    tiers: dict[str, str] = {}
    for name, state, tier in rows:
        states[name] = msgspec.msgpack.decode(state, type=known_type(JournalState))
        tiers[name] = tier or ""
    return states, tiers


@lru_cache(maxsize=100_000)
def _owner(key: bytes) -> str:
    """Returns the beginning of the ids of the sources that belong to a key."""
    return owner_of(journal_id(PublicKey(key)))


def _digests(proofs: pa.StructArray | None, count: int) -> list[bytes]:
    return [b""] * count if proofs is None else proofs.field("digest").to_pylist()


def _floors(entries: Entries) -> Numbers:
    """Returns the times up to which each entry's writer has reported everything."""
    beats = entries.body.field("heartbeats")
    floors = entries.time.copy()
    np.minimum.at(
        floors, numbers(pc.list_parent_indices(beats)), numbers(beats.flatten().field("until"))
    )
    return floors

"""Tells which journals are signed, lists them with their keys, and the faults of their entries'
signatures.

A journal is `signed` if its key is known; `unsigned` if it has none, as of an earlier release; or
`rejected` if its newest entries were not counted because of their signatures, or for lack of one.
"""

import sqlite3
from typing import Final, NamedTuple

import msgspec

from audit.api.answers import JournalFault, JournalKey
from ground.signatures.keys import PublicKey
from ledger.examination import ProofFaultKind

SIGNED: Final = "signed"
UNSIGNED: Final = "unsigned"
REJECTED: Final = "rejected"

# Somebody else may forge entries of a journal whose own newest proven one is still in transit.
_TRANSIT_MILLIS: Final = 180_000
_REJECTING: Final = (
    ProofFaultKind.FORGED,
    ProofFaultKind.UNKNOWN_KEY,
    ProofFaultKind.TIER,
    ProofFaultKind.UNSIGNED,
)
_JOURNALS: Final = """
SELECT cluster, journal, coalesce(journal_keys.tier, journals.tier, ''),
    coalesce(journal_keys.host, text, ''), key, coalesce(since, -1),
    coalesce(journal_keys.time, -1), coalesce(last_time, -1) FROM (
        SELECT cluster, journal FROM journals WHERE seen IS NOT NULL
        UNION SELECT cluster, journal FROM journal_keys)
    LEFT JOIN journals USING (cluster, journal)
    LEFT JOIN journal_keys USING (cluster, journal)
    LEFT JOIN names ON names.id = journals.host
    WHERE ?1 IN ('', cluster)
"""
_REJECTED: Final = """
SELECT cluster, journal, tier, host, max(until) FROM proof_faults
    WHERE ?1 IN ('', cluster)
    AND kind IN (SELECT value FROM json_each(?2)) GROUP BY cluster, journal
"""
_FAULTS: Final = """
SELECT cluster, journal, tier, host, kind, seq, end_seq, since, until, said, key FROM proof_faults
    WHERE ?1 IN ('', cluster) AND said >= ?2 ORDER BY said DESC, cluster, journal, kind, seq
"""


class SignedJournal(NamedTuple):
    """A journal, with its key if it has one, and whether its entries are signed."""

    cluster: str
    journal: str
    tier: str
    host: str
    key: bytes | None
    since: int  # the first entry with that key
    last: int  # the newest entry
    state: str


def signed_journals(connection: sqlite3.Connection, cluster: str) -> list[SignedJournal]:
    """Returns the journals of one cluster or all, also those all of whose entries were rejected."""
    kinds = msgspec.json.encode(_REJECTING).decode()
    rejected = {
        (name, journal): (tier, host, until)
        for name, journal, tier, host, until in connection.execute(_REJECTED, (cluster, kinds))
    }
    journals: list[SignedJournal] = []
    for name, journal, tier, host, key, since, proven, last in connection.execute(
        _JOURNALS, (cluster,)
    ):
        *_, until = rejected.pop((name, journal), (-1,))
        state = SIGNED if key else UNSIGNED
        if until > max(proven, last if key is None else -1) + _TRANSIT_MILLIS:
            state = REJECTED
        journals.append(
            SignedJournal(name, journal, tier, host, key, since, max(proven, last), state)
        )
    journals += [
        SignedJournal(name, journal, tier or "", host or "", None, -1, until, REJECTED)
        for (name, journal), (tier, host, until) in rejected.items()
    ]
    return journals


def journal_keys(connection: sqlite3.Connection, cluster: str) -> list[JournalKey]:
    """Returns the journals of one cluster or all, with their keys, by host."""
    journals = sorted(
        signed_journals(connection, cluster), key=lambda row: (row.cluster, row.host, row.journal)
    )
    return [
        JournalKey(
            cluster=row.cluster,
            journal=row.journal,
            tier=row.tier,
            host=row.host,
            fingerprint=PublicKey(row.key).fingerprint if row.key else "",
            public_key=PublicKey(row.key).pem.decode() if row.key else "",
            since=row.since,
            last=row.last,
            state=row.state,
        )
        for row in journals
    ]


def faults(connection: sqlite3.Connection, cluster: str, since: int) -> list[JournalFault]:
    return [
        JournalFault(
            cluster=cluster_name,
            journal=journal,
            tier=tier,
            host=host,
            kind=kind,
            first=first,
            entries=end - first,
            since=from_time,
            until=to_time,
            noticed=noticed,
            fingerprint=PublicKey(key).fingerprint if key else "",
        )
        for (
            *(cluster_name, journal, tier, host, kind, first, end, from_time, to_time, noticed),
            key,
        ) in connection.execute(_FAULTS, (cluster, since))
    ]

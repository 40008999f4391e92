"""Lists journals with their keys, and the faults of their entries' signatures."""

import sqlite3
from typing import Final

from audit.api.answers import JournalFault, JournalKey
from ground.signatures.keys import PublicKey

_KEYS: Final = """
SELECT cluster, journal, coalesce(journal_keys.tier, journals.tier),
    coalesce(journal_keys.host, text, ''), key, since,
    max(coalesce(journal_keys.time, -1), coalesce(last_time, -1)) FROM (
        SELECT cluster, journal FROM journals WHERE seen IS NOT NULL
        UNION SELECT cluster, journal FROM journal_keys)
    LEFT JOIN journals USING (cluster, journal)
    LEFT JOIN journal_keys USING (cluster, journal)
    LEFT JOIN names ON names.id = journals.host
    WHERE ?1 IN ('', cluster) ORDER BY cluster, 4, journal
"""
_FAULTS: Final = """
SELECT cluster, journal, tier, host, kind, seq, end_seq, since, until, said, key FROM proof_faults
    WHERE ?1 IN ('', cluster) AND said >= ?2 ORDER BY said DESC, cluster, journal, kind, seq
"""


def journal_keys(connection: sqlite3.Connection, cluster: str) -> list[JournalKey]:
    """Returns the journals of one cluster or all, with their keys, by host."""
    return [
        JournalKey(
            cluster=cluster_name,
            journal=journal,
            tier=tier or "",
            host=host,
            fingerprint=PublicKey(key).fingerprint if key else "",
            public_key=PublicKey(key).pem.decode() if key else "",
            since=-1 if since is None else since,
            last=last,
        )
        for cluster_name, journal, tier, host, key, since, last in connection.execute(
            _KEYS, (cluster,)
        )
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

"""Finds numbers of a journal with two different entries. One of the two was not written by the
journal's owner, and it is unknown which one, so neither is trusted. In a journal with a key,
signatures tell which one is right (examining.py); two that are both signed are a dispute, too.

Repetitions are no fault: programs send an entry again if they do not know whether it arrived, and
an `_audit` that is read again from the beginning has all entries again. So a digest of four bytes
is kept of each entry (folding/digests.py), for as long as windows are.

The first of the two may have been folded when the second arrives. So everything from then on in the
journal's topics is unproven, until an operator accepts it.
"""

import logging
import secrets
import sqlite3
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from audit.reconciling.picture import Disputed, TierKind
from audit.store.database import changed
from audit.store.entries import journals
from audit.store.entries.journals import SeenEntries, unpacked
from audit.store.folding.columns import Entries, Numbers
from audit.store.folding.digests import digests_of
from audit.store.folding.keyed_intervals import Mask, grouped
from ledger.examination import Standing

_BLOCK: Final = 64  # entries whose digests are kept together
_MOST: Final = 1_000  # of one journal
_MOST_NAMED: Final = 10  # of a chunk, in the log
_KEY_NAME: Final = "entry_key"
_DISPUTE: Final = """
INSERT OR IGNORE INTO disputed SELECT ?1, ?2, ?3, ?4
    WHERE (SELECT count(*) FROM disputed WHERE journal = ?1) < ?5
"""
_OF_TOPIC: Final = """
SELECT journals.journal, tier, text, seq, since FROM disputed
    JOIN journals ON journals.id = disputed.journal LEFT JOIN names ON names.id = host
    WHERE cluster = ?1
    AND (tier = 'broker' OR EXISTS (SELECT 1 FROM journal_topics
        WHERE name = ?2 AND journal_topics.journal = journals.id)
    OR EXISTS (SELECT 1 FROM agent_topics WHERE name = ?2 AND agent_topics.journal = journals.id))
    ORDER BY journals.journal, seq
"""
_HOURS: Final = """
SELECT DISTINCT hours.topic, hour FROM hours JOIN topics ON topics.id = hours.topic
    JOIN topic_names ON topic_names.id = name WHERE cluster = ?1 AND hour > ?2 - 3600000
"""

Digests = NDArray[np.uint32]

log = logging.getLogger(__name__)


class Doubt(msgspec.Struct, frozen=True):
    """The disputed `entries` of a chunk, and the `hours` of topics to judge again."""

    entries: Mask
    hours: set[tuple[int, int]] = set()


def standing(
    connection: sqlite3.Connection, entries: Entries, rows: Numbers, journal: Numbers
) -> Numbers:
    """Returns the standing of these entries, of the journals with these ids: whether an earlier one
    has the same number. One whose digest is not known any more counts as the same."""
    seq = entries.seq[rows]
    digests = digests_of(entries.body.take(pa.array(rows)), _key(connection))
    blocks = grouped(journal, seq // _BLOCK)
    keys = list(zip(*(key.tolist() for key in blocks.keys), strict=True))
    kept_digests = _kept(connection, keys)[blocks.numbered(), seq % _BLOCK]
    is_same = (kept_digests == 0) | (kept_digests == digests)
    standings = np.where(is_same, Standing.SAME, Standing.OTHER)
    return np.where(journals.has_seen(connection, journal, seq), standings, Standing.NEW)


def check(
    connection: sqlite3.Connection,
    cluster: str,
    entries: Entries,
    seen: SeenEntries,
    displacing: Mask,
) -> Doubt:
    """Compares the chunk's entries with each other and with stored digests, and stores their
    digests and new disputes. Entries that are `displacing` are right, and not compared."""
    has_name = np.array([bool(text) for text in entries.journal.values], np.bool_)
    rows = np.flatnonzero(has_name[entries.journal.codes] & (entries.seq >= 0))
    digests = digests_of(entries.body, _key(connection))[rows]
    journal, seq = seen.journal[rows], entries.seq[rows]
    blocks = grouped(journal, seq // _BLOCK)
    keys = list(zip(*(key.tolist() for key in blocks.keys), strict=True))
    kept_digests = _kept(connection, keys)
    row, column = blocks.numbered(), seq % _BLOCK
    is_displacing = displacing[rows]
    kept_digests[row[is_displacing], column[is_displacing]] = digests[is_displacing]
    # Of a new number, the first entry is compared with the others.
    new_rows = np.flatnonzero(kept_digests[row, column] == 0)
    grouping = grouped(journal[new_rows], seq[new_rows])
    first_rows = new_rows[grouping.order[grouping.begins]]
    kept_digests[row[first_rows], column[first_rows]] = digests[first_rows]
    packed_digests, size = kept_digests.tobytes(), _BLOCK * kept_digests.itemsize
    connection.executemany(
        "INSERT INTO entry_digests VALUES (?1, ?2, ?3, ?4)"
        " ON CONFLICT DO UPDATE SET said = ?3, digests = ?4",
        (
            (*key, entries.latest, packed_digests[size * row : size * (row + 1)])
            for row, key in enumerate(keys)
        ),
    )
    is_doubted = np.zeros(len(entries), np.bool_)
    is_different = kept_digests[row, column] != digests
    if not is_different.any():
        return Doubt(is_doubted)
    pairs = set(zip(journal[is_different].tolist(), seq[is_different].tolist(), strict=True))
    is_doubted[rows] = [pair in pairs for pair in zip(journal.tolist(), seq.tolist(), strict=True)]
    return Doubt(is_doubted, _keep(connection, cluster, entries, seen, rows[is_different]))


def _key(connection: sqlite3.Connection) -> bytes:
    rows = connection.execute("SELECT value FROM meta WHERE name = ?", (_KEY_NAME,)).fetchall()
    if rows:
        return bytes(rows[0][0])
    key = secrets.token_bytes(16)
    connection.execute("INSERT INTO meta VALUES (?, ?)", (_KEY_NAME, key))
    return key


def _kept(connection: sqlite3.Connection, keys: list[tuple[int, int]]) -> Digests:
    """Returns the digests of these journals and blocks; 0 where none is known."""
    rows = connection.execute(
        "SELECT journal, block, digests FROM entry_digests WHERE journal IN"
        " (SELECT value FROM json_each(?)) AND block BETWEEN ? AND ?",
        (
            str(sorted({journal for journal, _ in keys})),
            min((block for _, block in keys), default=0),
            max((block for _, block in keys), default=0),
        ),
    )
    block_rows = {key: number for number, key in enumerate(keys)}
    kept_digests = np.zeros((len(keys), _BLOCK), np.uint32)
    digests_by_row = {
        number: digests
        for journal, block, digests in rows
        if (number := block_rows.get((journal, block))) is not None
    }
    digest_values = np.frombuffer(b"".join(digests_by_row.values()), np.uint32)
    kept_digests[list(digests_by_row)] = digest_values.reshape(-1, _BLOCK)
    return kept_digests


def _keep(
    connection: sqlite3.Connection,
    cluster: str,
    entries: Entries,
    seen: SeenEntries,
    rows: Numbers,
) -> set[tuple[int, int]]:
    """Keeps new disputes, and returns the hours that they affect."""
    hours: set[tuple[int, int]] = set()
    logged_disputes = 0
    for index in rows.tolist():
        journal, seq = int(seen.journal[index]), int(entries.seq[index])
        since = _since(connection, journal, seq, int(entries.time[index]))
        values = (journal, seq, since, entries.latest)
        if not changed(connection, _DISPUTE, (*values, _MOST)):
            continue
        hours.update(connection.execute(_HOURS, (cluster, since)).fetchall())
        logged_disputes += 1
        if logged_disputes <= _MOST_NAMED:
            row = np.array([index])
            log.warning(
                "two different entries under one number; neither is trusted cluster=%s"
                " journal=%.200a seq=%d host=%.200a",
                *(cluster, *entries.journal.take(row), seq, *entries.host.take(row)),
            )
    return hours


def _since(connection: sqlite3.Connection, journal: int, seq: int, time: int) -> int:
    """Returns the time of the entry before: nothing is proven from then on."""
    rows = connection.execute("SELECT seen FROM journals WHERE id = ?", (journal,)).fetchall()
    seen_entries, times = unpacked(np.array([journal]), [row[0] for row in rows])
    earlier_times = times[:, 0][(seen_entries.first < seq) & (seen_entries.end > 0)]
    return min(time, int(earlier_times.max(initial=0)) or time)


def of(connection: sqlite3.Connection, cluster: str, name: int) -> list[Disputed]:
    """Returns the disputes that affect a topic, by the id of its name; consecutive numbers are
    combined."""
    disputes: list[Disputed] = []
    for journal, tier, host, seq, since in connection.execute(_OF_TOPIC, (cluster, name)):
        # A forged entry may name any tier.
        kind = TierKind(tier) if tier in set(TierKind) else TierKind.AGENT
        dispute = disputes[-1] if disputes else None
        if dispute is not None and (dispute.journal, dispute.seq + dispute.count) == (journal, seq):
            disputes[-1] = replace(
                dispute, count=dispute.count + 1, since=min(dispute.since, since)
            )
        else:
            disputes.append(Disputed(journal, kind, host or "", seq, 1, since))
    return disputes
